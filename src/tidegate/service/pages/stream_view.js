// One stream: its facts, its chart, and sums over ranges of it.

import { follow, get } from "./api.js";
import { Chart, instant } from "./chart.js";
import { element, facts as listFacts, field, row, shown } from "./dom.js";

const SHOWN = 5000; // rows that are fetched before live ones
const PARTS = 60; // means in the chart, about
const LENGTHS = [
  ["1s", 1], ["10s", 10], ["1min", 60], ["5min", 300], ["15min", 900], ["1h", 3600], ["6h", 21_600],
  ["1d", 86_400], ["1w", 604_800], ["1mo", 2_592_000],
]; // in seconds

/**
 * @typedef {{name: string, facts: any, keys: string[], range: (number | string)[] | null, stop: AbortController}} Shown
 */

export class StreamView {
  /** @param {(live: boolean | null) => void} connected @param {(error: unknown) => void} told */
  constructor(connected, told) {
    this.connected = connected;
    this.told = told;
    /** @type {Shown | null} */ this.current = null;
    this.chart = new Chart(
      element("chart"),
      (from, to) => this.#picked(from, to),
      (range) => this.#moved(range),
    );
    element("range").addEventListener("submit", (event) => {
      event.preventDefault();
      this.ask().catch(told);
    });
    element("view").addEventListener("submit", (event) => event.preventDefault());
    field("view", "every").addEventListener("change", () => this.means().catch(told));
    field("view", "keys").addEventListener("change", () => this.#chosen().catch(told));
    element("whole").addEventListener("click", () => this.#moved(null));
  }

  close() {
    this.current?.stop.abort();
    this.current = null;
    this.chart.clear();
    element("stream").hidden = true;
  }

  /** @param {string} name */
  async open(name) {
    this.current?.stop.abort();
    const current = { name, facts: null, keys: [], range: null, stop: new AbortController() };
    this.current = current;
    this.chart.clear();
    element("answer").textContent = "";
    /** @type {HTMLFormElement} */ (element("range")).reset();
    element("means").replaceChildren();
    element("name").textContent = name;
    element("stream").hidden = false;
    await this.facts();
    this.#lengths();
    await this.#keys();
    await this.#rows();
  }

  /** The newest rows, and then those that come; of many keys, of the first that is chosen. */
  async #rows() {
    const current = this.current;
    if (!current) return;
    const { name, stop } = current;
    const [key] = current.keys;
    const one = ofKey(key);
    const released = current.facts.released ?? 0;
    const start = key === undefined ? Math.max(0, released - SHOWN) : 0;
    const page = await get(`/v1/streams/${name}/values`, { start, limit: SHOWN, ...one });
    if (stop.signal.aborted) return;
    for (const rows of page.rows) this.chart.add(rows);
    this.chart.draw();
    await this.means().catch(() => {});
    this.connected(null);
    const asked = new URLSearchParams(one).toString();
    follow(
      `/v1/streams/${name}/live${asked ? `?${asked}` : ""}`,
      page.next,
      (rows) => this.chart.add(rows),
      this.connected,
      stop.signal,
    );
  }

  async facts() {
    const current = this.current;
    if (!current) return;
    const known = await get(`/v1/streams/${current.name}`);
    current.facts = known;
    const facts = [
      ["Guarantee", known.guarantee],
      ["Rows are", known.kind ?? "readings"],
      ["Released rows", shown(known.released)],
      ...(known.keys ? [["Keys", shown(known.keys)]] : []),
      ["Cap θ", known.threshold != null ? shown(known.threshold) : known.keys ? "one for each key" : "not chosen yet"],
      ...(known.warming ? [["Warm-up", `${shown(known.warming)} more values`]] : []),
      ["Times", known.timed ? known.zone ?? "without a zone" : "none"],
    ];
    listFacts("facts", facts);
    const empty = element("empty");
    empty.hidden = known.released > 0;
    empty.textContent = known.withheld
      ? "The first values choose the threshold and are withheld. Nothing is released yet."
      : "Nothing is released yet. The chart begins with the first values.";
  }

  async #keys() {
    const current = this.current;
    const choice = element("key-choice");
    choice.hidden = !current?.facts.keys;
    if (!current?.facts.keys) return;
    const { keys } = await get(`/v1/streams/${current.name}/keys`, { limit: 1000 });
    const select = /** @type {HTMLSelectElement} */ (/** @type {unknown} */ (field("view", "keys")));
    select.replaceChildren(...keys.map((/** @type {string} */ key, /** @type {number} */ at) => new Option(key, key, at === 0, at === 0)));
    current.keys = keys.slice(0, 1);
  }

  async #chosen() {
    const current = this.current;
    if (!current) return;
    const select = /** @type {HTMLSelectElement} */ (/** @type {unknown} */ (field("view", "keys")));
    const keys = [...select.selectedOptions].map((option) => option.value).slice(0, 5);
    current.stop.abort();
    this.current = { ...current, keys, stop: new AbortController() };
    this.chart.clear();
    await this.#rows();
  }

  #lengths() {
    const select = /** @type {HTMLSelectElement} */ (/** @type {unknown} */ (field("view", "every")));
    const timed = this.current?.facts.timed;
    const lengths = timed ? LENGTHS.map(([name]) => String(name)) : ["10", "100", "1000", "10000"];
    const options = lengths.map((one) => new Option(timed ? one : `${shown(Number(one))} rows`, one));
    select.replaceChildren(new Option("automatic", ""), ...options);
  }

  /** How long each part is: as chosen, or so that the chart has about PARTS of them. */
  #every() {
    const chosen = field("view", "every").value;
    const { facts, range } = /** @type {Shown} */ (this.current);
    if (chosen) return chosen;
    if (!facts.timed) return String(Math.max(1, Math.ceil(facts.released / PARTS)));
    const [first, last] = range ?? [this.chart.x[0], this.chart.x[this.chart.x.length - 1]];
    const seconds = (Date.parse(instant(last)) - Date.parse(instant(first))) / 1000 / PARTS;
    const found = LENGTHS.find(([, length]) => Number(length) >= seconds);
    return String((found ?? LENGTHS[LENGTHS.length - 1])[0]);
  }

  /** Means over parts of what is shown. */
  async means() {
    const current = this.current;
    if (!(current?.facts?.released > 1) || !current || !this.chart.x.length) return;
    /** @type {Record<string, string>} */
    const asked = { every: this.#every() };
    if (current.facts.timed && current.range) {
      [asked.from, asked.to] = current.range.map(instant);
    }
    const keys = current.keys.length ? current.keys : [undefined];
    const found = await Promise.all(
      keys.map(async (key) => {
        const one = ofKey(key);
        const { columns } = await get(`/v1/streams/${current.name}/table`, { ...asked, ...one });
        return this.#series(key, columns);
      }),
    );
    if (current !== this.current) return;
    this.chart.setMeans(found);
    this.#table(found);
  }

  /** @param {string | undefined} key @param {any} columns */
  #series(key, columns) {
    const timed = columns.time !== undefined;
    const sizes = timed ? columns.rows : columns.end.map((/** @type {number} */ end, /** @type {number} */ at) => end - columns.start[at]);
    const mean = (/** @type {string} */ name) =>
      timed
        ? columns[name === "estimate" ? "mean" : `mean_${name}`]
        : columns[name].map((/** @type {number | null} */ sum, /** @type {number} */ at) => (sum === null ? null : sum / sizes[at]));
    const ended = (/** @type {any[]} */ numbers) => [...numbers, numbers[numbers.length - 1]];
    const starts = timed ? columns.time.map(instant) : columns.start;
    const end = timed ? this.chart.x[this.chart.x.length - 1] : columns.end[columns.end.length - 1];
    return {
      name: key ?? "mean, with 95 % interval",
      sizes,
      x: [...starts, end],
      middle: ended(mean("estimate")),
      low: ended(mean("low")),
      high: ended(mean("high")),
    };
  }

  /** @param {any[]} series */
  #table(series) {
    const rows = series.flatMap(({ name, x, sizes, middle, low, high }) =>
      sizes.map((/** @type {number} */ size, /** @type {number} */ at) => {
        const start = typeof x[at] === "number" ? shown(x[at]) : moment(x[at]);
        const label = series.length > 1 ? `${name}: ${start}` : start;
        return row([label, shown(size), shown(middle[at]), shown(low[at]), shown(high[at])]);
      }),
    );
    element("means").replaceChildren(...rows.slice(-500));
  }

  /** @param {(number | string)[] | null} range */
  #moved(range) {
    if (!this.current) return;
    this.current.range = range;
    if (range === null) this.chart.whole();
    this.means().catch(this.told);
  }

  /** @param {number | string} from @param {number | string} to */
  #picked(from, to) {
    const ends = [from, to].map((one) => (this.chart.timed ? instant(one) : String(Math.round(Number(one)))));
    [field("range", "from").value, field("range", "to").value] = ends;
    this.ask().catch(this.told);
  }

  async ask() {
    const current = this.current;
    if (!current) return;
    const [from, to] = ["from", "to"].map((name) => field("range", name).value.trim());
    const positions = /^\d+$/.test(from) && /^\d+$/.test(to);
    /** @type {Record<string, string>} */
    const query = positions ? { start: from, end: to } : { from, to };
    if (positions && !current.keys.length) query.end = String(Math.min(Number(to), current.facts.released));
    const keys = current.keys.length ? current.keys : [undefined];
    const place = element("answer");
    try {
      const said = await Promise.all(
        keys.map(async (key) => {
          const one = ofKey(key);
          const { sum } = await get(`/v1/streams/${current.name}/sum`, { ...query, ...one });
          return `${key === undefined ? "" : `${key}: `}${words(sum)}`;
        }),
      );
      place.replaceChildren(
        ...said.map((text) => {
          const line = document.createElement("span");
          line.textContent = text;
          return line;
        }),
      );
    } catch (error) {
      place.textContent = error instanceof Error ? error.message : "No answer";
    }
  }
}

/** What asks for one key; nothing where there are none. @param {string | undefined} key @returns {Record<string, string>} */
function ofKey(key) {
  return key === undefined ? {} : { key };
}

/** A time as people write it: without parts that are 0. @param {string} text */
function moment(text) {
  return text.replace("T", " ").replace(/(:00)?\.000Z$/, "");
}

/** @param {any} sum */
function words(sum) {
  const rows = sum.end - sum.start;
  const mean = rows ? `; mean ${shown(sum.estimate / rows)}` : "";
  const warning = sum.warning ? ` Note: ${sum.warning}.` : "";
  const what = sum.capped ? "Sum of capped values" : "Sum";
  return (
    `${what} of ${shown(rows)} rows: ${shown(sum.estimate)}, between ${shown(sum.low)} and ` +
    `${shown(sum.high)} with 95 % confidence${mean}.${warning}`
  );
}
