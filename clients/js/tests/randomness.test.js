/** Words from Web Crypto, and reports drawn from them: as often as they should be. */

import assert from "node:assert/strict";
import { test } from "node:test";

import { exact } from "../src/fraction.js";
import { questionFromPlain, secureWords } from "../src/index.js";
import { questions } from "./announcements.js";

test("words are handed out in order, once, and wiped", () => {
  const filled = [];
  const crypto = {
    getRandomValues(buffer) {
      filled.push(buffer);
      return buffer.forEach((_, index) => (buffer[index] = 100 * filled.length + index));
    },
  };
  const words = secureWords({ buffered: 4, crypto });
  assert.deepEqual(Array.from({ length: 6 }, words), [100, 101, 102, 103, 200, 201]);
  assert.deepEqual([...filled[1]], [0, 0, 202, 203]);
});

test("more words than one call may fetch, and no Web Crypto", () => {
  const words = secureWords({ buffered: 10 ** 6 });
  for (let count = 0; count < 20_000; count += 1) assert.ok(words() < 2 ** 32);
  assert.throws(() => secureWords({ crypto: {} }), { name: "TidegateError" });
});

/** Σ (observed − expected)²/expected, as standard deviations from its mean. */
function excess(counts, shares, draws) {
  const square = counts.reduce(
    (sum, count, index) => sum + (count - draws * shares[index]) ** 2 / (draws * shares[index]),
    0,
  );
  return (square - (counts.length - 1)) / Math.sqrt(2 * (counts.length - 1));
}

/** Raised such that a fair sampler fails once in 10^9 runs; a wrong one is hundreds away. */
const FAIR = 12;
const DRAWS = 200_000;

function tallied(question, value) {
  const counts = new Array(question.reports).fill(0);
  const words = secureWords();
  for (let draw = 0; draw < DRAWS; draw += 1) counts[question.answer(value, words)] += 1;
  return counts;
}

test("a table's columns are drawn by their weights, and not by weights 30 % off", () => {
  const question = questionFromPlain(questions[1]);
  for (const [value, row] of [[0, 0], [question.threshold, question.weights.length - 1]]) {
    const shares = question.weights[row].map((weight) => weight / question.total);
    const counts = tallied(question, value);
    assert.ok(excess(counts, shares, DRAWS) < FAIR);
    const tilted = shares.map((share, column) => share * (column % 2 ? 1.3 : 0.7));
    const sum = tilted.reduce((total, share) => total + share);
    assert.ok(excess(counts, tilted.map((share) => share / sum), DRAWS) > FAIR);
  }
});

test("a table's reports are unbiased in between", () => {
  const question = questionFromPlain(questions[1]);
  for (const value of [0, 13, 40, 77, 80]) {
    const counts = tallied(question, value);
    const mean = counts.reduce((sum, n, column) => sum + n * question.outputs[column], 0) / DRAWS;
    const reach = Math.max(...question.outputs.map(Math.abs));
    assert.ok(Math.abs(mean - (2 * value / 80 - 1)) < (6 * reach) / Math.sqrt(DRAWS));
  }
});

test("what a bit costs, measured, is the epsilon it claims: not 30 % more or less", () => {
  const half = questions.find(({ form }) => form === "tail");
  const question = questionFromPlain({ ...half, dither: 0 });
  question.check(exact("epsilon", "1/2"));
  const [below, above] = [tallied(question, 0), tallied(question, 100)];
  const measured = Math.log(above[1] / below[1]);
  assert.ok(Math.abs(measured - 0.5) < 0.05, `measured ${measured}`);
});

test("the cells of a wave are drawn by their weights", () => {
  const question = questionFromPlain({
    ...{ form: "wave", top: 9, bins: 10, half: 2, high: 2 ** 28, low: 2 ** 27 },
  });
  for (const [value, first] of [[0, 0], [4, 4], [9, 9]]) {
    const shares = Array.from({ length: 14 }, (_, cell) =>
      (cell >= first && cell < first + 5 ? question.high : question.low) / question.total,
    );
    assert.ok(excess(tallied(question, value), shares, DRAWS) < FAIR);
  }
});
