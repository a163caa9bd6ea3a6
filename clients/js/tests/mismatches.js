/** How many of the vectors are met, for browsers, which have no test runner. */

import { exact } from "../src/fraction.js";
import { questionFromPlain } from "../src/index.js";

/** Counts of answers and of checks that were made, and of those that differ from Python's. */
export function mismatches({ answers, loss }) {
  let [made, wrong] = [0, 0];
  const compare = (found, expected) => {
    made += 1;
    if (found !== expected) wrong += 1;
  };
  for (const { question, cases } of answers) {
    const asked = questionFromPlain(question);
    for (const [value, words, report] of cases) {
      const left = [...words];
      compare(asked.answer(value, () => left.shift()), report);
    }
  }
  for (const { question, epsilon, allowed } of loss) {
    let passed = true;
    try {
      questionFromPlain(question).check(exact("epsilon", epsilon));
    } catch {
      passed = false;
    }
    compare(passed, allowed);
  }
  return { made, wrong };
}
