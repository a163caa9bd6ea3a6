// Everything at a glance: the list of streams, and what each source has spent.

import { get } from "./api.js";
import { element, row, shown } from "./dom.js";

const LOOKED_AT = 30; // streams whose facts are asked for
/** @type {Map<string, {released: number, at: number}>} */
const before = new Map();

/** @param {string | undefined} current @param {(name: string) => void} open */
export async function listStreams(current, open) {
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
    for (const text of lines(stream, facts[at])) {
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

/** @param {any} stream @param {any} facts */
function lines(stream, facts) {
  const found = [stream.retired ? `retired; ${stream.guarantee}` : stream.guarantee];
  if (!facts) return found;
  const rows = facts.keys ? `${shown(facts.keys)} keys, ${shown(facts.released)} rows` : `${shown(facts.released)} rows`;
  const cap = facts.threshold === null || facts.threshold === undefined ? "" : `, θ ${shown(facts.threshold)}`;
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

export async function showLedger() {
  const { sources, left = {} } = await get("/v1/ledger");
  element("sources").replaceChildren(
    ...Object.entries(sources).map(([name, spent]) => {
      const known = left[name];
      return row([name, `ε = ${shown(number(spent))}`, known == null ? "no cap" : `ε = ${shown(number(known))}`, bar(spent, known)]);
    }),
  );
  element("ledger").hidden = Object.keys(sources).length === 0;
}

/** @param {unknown} spent @param {unknown} left */
function bar(spent, left) {
  const meter = document.createElement("meter");
  const known = left != null;
  const [used, rest] = [number(spent), known ? number(left) : 0];
  meter.max = known ? used + rest : 1;
  meter.value = known ? used : 0;
  meter.title = known ? `${Math.round((100 * used) / (used + rest || 1))} % of the cap` : "no cap";
  meter.setAttribute("aria-label", meter.title);
  meter.hidden = !known;
  return meter;
}

/** A decimal or a fraction, in whatever words stand around it. @param {unknown} text */
function number(text) {
  const found = /(\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?:\/(\d+))?/i.exec(String(text));
  return found ? Number(found[1]) / Number(found[2] ?? 1) : 0;
}
