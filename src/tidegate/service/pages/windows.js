// Moving windows: how long they are, how far apart they end, and what the service says of them.

import { get } from "./api.js";
import { asked, instant } from "./times.js";

const WINDOWS = { rows: 10, time: 30 }; // of the automatic length, in what is shown
const POINTS = 240; // of a line
const LENGTHS = [
  ["1s", 1], ["10s", 10], ["1min", 60], ["5min", 300], ["15min", 900], ["1h", 3600], ["3h", 10_800], ["6h", 21_600],
  ["12h", 43_200], ["1d", 86_400], ["1w", 604_800], ["4w", 2_419_200], ["52w", 31_449_600],
]; // in seconds

/**
 * @typedef {{from: number | string, to: number | string}} Span what is shown: positions, or times
 * @typedef {{middle: (number | null)[], low: (number | null)[], high: (number | null)[]}} Band
 * @typedef {{name: string, x: (number | string)[], rows: number[], mean: Band, sum: Band | null}} Moving
 */

/** Lengths to choose from. @param {boolean} timed @returns {string[]} */
export function lengths(timed) {
  return timed ? LENGTHS.map(([name]) => String(name)) : ["10", "100", "1000", "10000", "100000"];
}

/** In words. @param {string} length */
export function named(length) {
  if (/^\d+$/.test(length)) return `${Number(length).toLocaleString("en")} rows`;
  const units = { s: "second", min: "minute", h: "hour", d: "day", w: "week" };
  const [, count, unit] = /** @type {RegExpExecArray} */ (/^(\d+)([a-z]+)$/.exec(length));
  const name = units[/** @type {keyof typeof units} */ (unit)];
  return count === "1" ? name : `${count} ${name}s`;
}

/** The window and the step for what is shown. @param {Span} span @param {boolean} timed @param {string} chosen */
export function sized(span, timed, chosen) {
  if (!timed) {
    const rows = Math.max(1, Number(span.to) - Number(span.from));
    const over = chosen || String(round(rows / WINDOWS.rows));
    return { over, every: String(round(rows / POINTS)) };
  }
  const seconds = Math.max(1, (Date.parse(instant(span.to)) - Date.parse(instant(span.from))) / 1000);
  const over = chosen || atLeast(seconds / WINDOWS.time);
  const every = atLeast(seconds / POINTS);
  return { over, every };
}

/** @param {number} rows the next of 1, 2, 5, 10, 20, 50, … */
function round(rows) {
  const power = 10 ** Math.floor(Math.log10(Math.max(1, rows)));
  return ([1, 2, 5].find((one) => one * power >= rows) ?? 10) * power;
}

/** @param {number} seconds */
function atLeast(seconds) {
  const found = LENGTHS.find(([, length]) => Number(length) >= seconds) ?? LENGTHS[LENGTHS.length - 1];
  return String(found[0]);
}

/**
 * Moving sums and means of a stream, or of one of its keys.
 * @param {{name: string, facts: any}} stream
 * @param {string | undefined} key
 * @param {{over: string, every: string}} size
 * @param {Span | null} span what is shown; null: everything
 * @returns {Promise<Moving>}
 */
export async function moving(stream, key, size, span) {
  const { timed, zone } = stream.facts;
  /** @type {Record<string, string | number>} */
  const query = { ...size, ...ofKey(key) };
  if (span && timed) Object.assign(query, { from: asked(span.from, zone !== null), to: asked(span.to, zone !== null) });
  else if (span) Object.assign(query, { start: Math.max(0, Math.floor(Number(span.from))), end: Math.max(0, Math.ceil(Number(span.to))) });
  const { columns } = await get(`/v1/streams/${stream.name}/moving`, query);
  const band = (/** @type {string} */ of) => ({ middle: columns[of], low: columns[`${of}_low`], high: columns[`${of}_high`] });
  return {
    name: key ?? "",
    x: timed ? columns.to.map(instant) : columns.end,
    rows: columns.rows,
    mean: band("mean"),
    sum: band("sum"),
  };
}

/** What asks for one key; nothing where there are none. @param {string | undefined} key @returns {Record<string, string>} */
export function ofKey(key) {
  return key === undefined ? {} : { key };
}
