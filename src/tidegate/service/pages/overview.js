// Everything at a glance: the list of streams, with rate, cap, guarantee and budget left.

import { get } from "./api.js";
import { element } from "./dom.js";
import { shown } from "./times.js";

const LOOKED_AT = 30; // streams whose facts are asked for
/** @type {Map<string, {released: number, at: number}>} */
const before = new Map();

/** @typedef {import("./ledger_view.js").Source} Source */

/** @param {string | undefined} current @param {(name: string) => void} open @param {Map<string, Source>} budgets */
export async function listStreams(current, open, budgets) {
  const streams = await get("/v1/streams");
  const facts = await Promise.all(
    streams.map((/** @type {any} */ one, /** @type {number} */ at) =>
      at < LOOKED_AT ? get(`/v1/streams/${one.name}`).catch(() => null) : null,
    ),
  );
  const items = streams.map((/** @type {any} */ stream, /** @type {number} */ at) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.dataset.name = stream.name;
    button.textContent = stream.name;
    for (const text of lines(stream, facts[at], budgets.get(stream.source))) {
      const small = document.createElement("small");
      small.textContent = text;
      button.append(small);
    }
    button.setAttribute("aria-current", String(current === stream.name));
    button.addEventListener("click", () => open(stream.name));
    item.append(button);
    return item;
  });
  const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.name;
  element("streams").replaceChildren(...items);
  if (focused) /** @type {HTMLElement | null} */ (document.querySelector(`#streams [data-name="${focused}"]`))?.focus();
  element("no-streams").hidden = streams.length > 0;
  return streams;
}

/** @param {any} stream @param {any} facts @param {Source | undefined} budget */
function lines(stream, facts, budget) {
  const promise = stream.guarantee.replace(/ \(.*\)$/, ""); // the rest stands beside the chart
  const found = [stream.retired ? `retired; ${promise}` : promise];
  if (budget && budget.left !== null && budget.cap !== null) {
    found.push(`budget left: ${shown(budget.left, 3)} of ${shown(budget.cap, 3)}`);
  }
  if (!facts) return found;
  const count = `${shown(facts.released)} ${facts.released === 1 ? "row" : "rows"}`;
  const rows = facts.keys ? `${shown(facts.keys)} keys, ${count}` : count;
  const cap = facts.threshold === null || facts.threshold === undefined ? "" : `, θ ${shown(facts.threshold, 4)}`;
  return [...found, `${rows}${rate(stream.name, facts.released)}${cap}`];
}

/** Rows a second since the last look. @param {string} name @param {number} released */
function rate(name, released) {
  const now = performance.now();
  const last = before.get(name);
  if (!last || now - last.at > 5000 || last.released !== released) before.set(name, { released, at: now });
  if (!last || last.released >= released) return "";
  return `, ${shown(Number(((1000 * (released - last.released)) / (now - last.at)).toPrecision(2)))} a second`;
}
