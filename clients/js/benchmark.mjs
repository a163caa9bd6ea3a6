/**
 * Reports per second in Node: `node benchmark.mjs [--json] [--quick]`, best of several runs.
 *
 * The first three draw reports to a question that was read and checked; the last is all that a
 * device does for one round: reading and checking an announcement, drawing, pinning.
 */

import { readFileSync } from "node:fs";
import { parseArgs } from "node:util";

import { Client, questionFromPlain, secureWords, VolatileStorage } from "./src/index.js";

const { values: options } = parseArgs({
  options: { json: { type: "boolean" }, quick: { type: "boolean" } },
});
const vectors = JSON.parse(readFileSync(new URL("vectors.json", import.meta.url), "utf8"));
const count = options.quick ? 200_000 : 1_000_000;
const repeats = options.quick ? 3 : 7;

/** Reports per second of the fastest of `repeats` runs. */
async function rate(reports, run) {
  let best = 0;
  for (let repeat = 0; repeat < repeats; repeat += 1) {
    const start = performance.now();
    await run();
    best = Math.max(best, (1000 * reports) / (performance.now() - start));
  }
  return best;
}

function drawing(plain) {
  const question = questionFromPlain(plain);
  const words = secureWords();
  const values = Float64Array.from({ length: count }, () => words() % 100);
  const tally = new Float64Array(question.reports);
  return rate(count, () => {
    for (let index = 0; index < count; index += 1) tally[question.answer(values[index], words)] += 1;
  });
}

function rounds() {
  const [{ steps }] = vectors.clients;
  const table = vectors.answers[1].question;
  const asked = { ...steps[0].announcement, question: table };
  const texts = Array.from({ length: 4000 }, (_, index) =>
    JSON.stringify({ ...asked, round: `r${index}` }),
  );
  return rate(texts.length, async () => {
    const storage = new VolatileStorage();
    const client = await Client.open({ epsilon: 1, bound: 100, lifetime: 10_000, storage });
    for (const text of texts) await client.answer(text, 17, { event: text });
  });
}

const asked = Object.fromEntries(vectors.answers.map(({ question }) => [question.form, question]));
const rates = {
  value: await drawing(vectors.answers[1].question),
  tail: await drawing(asked.tail),
  wave: await drawing(asked.wave),
  client: await rounds(),
};

if (options.json) console.log(JSON.stringify(rates));
else {
  for (const [name, perSecond] of Object.entries(rates)) {
    console.log(`${name.padEnd(8)}${Math.round(perSecond).toLocaleString("en").padStart(12)} reports/s`);
  }
}
