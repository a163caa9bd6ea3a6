// The range tool: a sum and a mean with their intervals, in words.

import { get } from "./api.js";
import { element, field } from "./dom.js";
import { asked, interval, shown } from "./times.js";
import { ofKey } from "./windows.js";

/** @typedef {{name: string, facts: any, keys: string[]}} Asked */

/** Fill in the two ends. @param {number | string} from @param {number | string} to @param {any} facts */
export function fill(from, to, facts) {
  [field("range", "from").value, field("range", "to").value] = [written(from, facts), written(to, facts)];
}

/** Show what the two ends look like, without filling them in. @param {number | string} from @param {number | string} to @param {any} facts */
export function suggest(from, to, facts) {
  field("range", "from").placeholder = written(from, facts);
  field("range", "to").placeholder = written(to, facts);
}

/** An end as one would type it. @param {number | string} one @param {any} facts */
function written(one, facts) {
  return facts.timed ? asked(one, facts.zone !== null) : String(Math.max(0, Math.round(Number(one))));
}

const SLOW = 300; // milliseconds without an answer, after which that is said
let questions = 0;

/** Ask for what the two fields say, and show it. @param {Asked} stream */
export async function ask(stream) {
  const [from, to] = ["from", "to"].map((name) => field("range", name).value.trim());
  const positions = /^\d+$/.test(from) && /^\d+$/.test(to);
  /** @type {Record<string, string>} */
  const query = positions ? { start: from, end: to } : { from, to };
  if (positions && !stream.keys.length) query.end = String(Math.min(Number(to), stream.facts.released));
  const place = element("answer");
  const question = (questions += 1);
  place.setAttribute("aria-busy", "true");
  place.classList.remove("wrong");
  const slow = setTimeout(() => place.replaceChildren("Being worked out …"), SLOW);
  try {
    const said = await Promise.all(
      (stream.keys.length ? stream.keys : [undefined]).map(async (key) => {
        const { sum } = await get(`/v1/streams/${stream.name}/sum`, { ...query, ...ofKey(key) });
        return `${key === undefined ? "" : `${key}: `}${words(sum)}`;
      }),
    );
    clearTimeout(slow);
    if (question !== questions) return; // another one was asked meanwhile
    place.replaceChildren(
      ...said.map((text) => {
        const line = document.createElement("span");
        line.textContent = text;
        return line;
      }),
    );
  } catch (error) {
    clearTimeout(slow);
    if (question !== questions) return;
    place.classList.add("wrong");
    place.textContent = error instanceof Error ? `No answer: ${error.message}` : "No answer.";
  } finally {
    if (question === questions) place.removeAttribute("aria-busy");
  }
}

/** @param {any} sum */
function words(sum) {
  const rows = sum.end - sum.start;
  if (!rows) return "There is no row in this range.";
  const what = sum.capped ? "Sum of capped values" : "Sum";
  const warning = sum.warning ? ` Note: ${sum.warning}.` : "";
  const [total, mean] = [1, rows].map((size) => spoken(sum, size));
  return `${what} of ${shown(rows)} ${rows === 1 ? "row" : "rows"}: ${total}, with 95 % confidence. Mean: ${mean}.${warning}`;
}

/** @param {any} sum @param {number} size */
function spoken(sum, size) {
  const part = (/** @type {number | null} */ one) => (one === null ? null : one / size);
  const { middle, low, high } = interval(sum.estimate / size, part(sum.low), part(sum.high));
  if (high === null) return `${middle}, at least ${low} (no upper limit is known)`;
  return `${middle}, between ${low} and ${high}`;
}
