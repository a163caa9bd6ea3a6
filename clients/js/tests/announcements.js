/** Sound announcements for the tests, from the vectors. */

import { readFileSync } from "node:fs";

const vectors = JSON.parse(readFileSync(new URL("../vectors.json", import.meta.url), "utf8"));
const [{ steps }] = vectors.clients;

/** One whose question costs ε = 1: "is the value, up to 100, above 20?" */
export function announcement(changes = {}) {
  return { ...structuredClone(steps[0].announcement), ...changes };
}

/** The questions of the vectors, as plain data. */
export const questions = vectors.answers.map(({ question }) => question);
