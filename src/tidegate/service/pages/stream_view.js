// One stream: its facts, its chart, and sums over ranges of it.

import { follow, get } from "./api.js";
import { Chart, points } from "./chart.js";
import { element, facts as listFacts, field, row } from "./dom.js";
import { listenToKeys, offerKeys } from "./key_choice.js";
import { ask, fill, suggest } from "./range_tool.js";
import { asked, instant, moment, said, shown } from "./times.js";
import { lengths, moving, named, ofKey, sized } from "./windows.js";

const SHOWN = 5000; // rows whose levels are fetched at once
const LOOKED_THROUGH = 500_000; // rows of all keys that are looked through for those of one

/** What a row is, by the kind of its stream. @type {Record<string, string>} */
const KINDS = {
  readings: "readings",
  events: "sums of events, one for each tick",
  "keyed readings": "readings of each key",
  "keyed events": "sums of events, one for each key and tick",
};

/** @typedef {{name: string, facts: any, keys: string[], first: number | string | null, stop: AbortController}} Shown */

export class StreamView {
  /** @param {(live: boolean | null) => void} connected @param {(error: unknown) => void} told */
  constructor(connected, told) {
    this.connected = connected;
    this.told = told;
    this.mayRead = true; // an auditor sees facts alone
    this.working = false; // the first sums are on their way
    /** @type {Shown | null} */ this.current = null;
    this.chart = new Chart(
      element("chart"),
      (from, to) => this.#picked(from, to),
      () => this.#moved(),
    );
    element("range").addEventListener("submit", (event) => {
      event.preventDefault();
      if (this.current) ask(this.current);
    });
    element("view").addEventListener("submit", (event) => event.preventDefault());
    field("view", "over").addEventListener("change", () => this.moving().catch(told));
    listenToKeys((keys) => this.#chosen(keys).catch(told));
    element("whole").addEventListener("click", () => this.#show(null));
    element("earlier").addEventListener("click", () => this.#shift(-0.5, 1));
    element("later").addEventListener("click", () => this.#shift(0.5, 1));
    element("closer").addEventListener("click", () => this.#shift(0, 0.5));
    element("farther").addEventListener("click", () => this.#shift(0, 2));
    element("visible").addEventListener("click", () => {
      const span = this.#span();
      if (span) this.#picked(span.from, span.to);
    });
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
    const current = { name, facts: null, keys: [], first: null, stop: new AbortController() };
    this.current = current;
    this.chart.clear();
    element("answer").textContent = "";
    /** @type {HTMLFormElement} */ (element("range")).reset();
    for (const end of ["from", "to"]) field("range", end).placeholder = "";
    element("sums").replaceChildren();
    element("facts").replaceChildren();
    element("name").textContent = name;
    element("stream").hidden = false;
    this.#say("Loading …");
    try {
      await this.facts();
      if (!this.mayRead) {
        element("released").hidden = true;
        this.#say("This token may read facts and the ledger, not what was released.");
        return;
      }
      this.#lengths();
      element("key-choice").hidden = !this.current?.facts.keys;
      if (this.current?.facts.keys) this.current.keys = await offerKeys(name);
      await this.#rows();
    } catch (error) {
      if (current.name === this.current?.name) this.#say(`This stream could not be loaded: ${error instanceof Error ? error.message : "no answer"}`);
      throw error;
    }
  }

  /** In place of a chart, or beside it. @param {string} text */
  #say(text) {
    const place = element("empty");
    place.hidden = !text;
    place.textContent = text;
  }

  /** The newest rows, and then those that come; of many keys, of the first that is chosen. */
  async #rows() {
    const current = this.current;
    if (!current) return;
    const { name, stop, facts } = current;
    const one = ofKey(current.keys[0]);
    const looked = facts.keys ? Math.min(LOOKED_THROUGH, SHOWN * facts.keys) : SHOWN;
    const start = Math.max(0, (facts.released ?? 0) - looked);
    const [page, begin] = await Promise.all([
      get(`/v1/streams/${name}/values`, { start, limit: SHOWN, ...one }),
      get(`/v1/streams/${name}/values`, { start: 0, limit: 1, ...one }),
    ]);
    if (stop.signal.aborted) return;
    const [oldest] = begin.rows;
    current.first = oldest ? (oldest.times ? moment(oldest.times[0]) : (oldest.positions?.[0] ?? oldest.first)) : null;
    this.#words();
    for (const rows of page.rows) this.chart.add(rows);
    this.chart.draw();
    const span = this.#span();
    if (span) suggest(span.from, span.to, facts);
    this.working = true;
    this.#told();
    const problem = await this.moving().then(() => "", (error) => (error instanceof Error ? error.message : "no answer"));
    if (stop.signal.aborted) return;
    this.working = false;
    if (problem && !(facts.warming && facts.threshold === null)) this.#say(`Levels are shown without sums: ${problem}`);
    else this.#told();
    this.connected(null);
    const query = new URLSearchParams({ start: page.next, ...one });
    follow(
      `/v1/streams/${name}/live?${query}`,
      (rows) => {
        this.chart.add(rows);
        current.first ??= this.chart.x[0] ?? null; // nothing was released when it was opened
      },
      this.connected,
      () => this.open(name).catch(this.told),
      stop.signal,
    );
  }

  async facts() {
    const current = this.current;
    if (!current) return;
    const known = await get(`/v1/streams/${current.name}`);
    current.facts = known;
    listFacts("facts", [
      ["Guarantee", known.guarantee],
      ["Rows are", KINDS[known.kind] ?? "readings"],
      ["Released rows", shown(known.released)],
      ...(known.keys ? [["Keys", shown(known.keys)]] : []),
      ["Cap θ (larger values count as this)", known.threshold != null ? shown(known.threshold) : known.keys ? "one for each key" : "not chosen yet"],
      ...(known.warming ? [["Warm-up", `${shown(known.warming)} more values`]] : []),
      ["Times are in", known.timed ? known.zone ?? "no zone" : "no times: rows are counted"],
    ]);
    if (this.mayRead) this.#told();
  }

  /** What stands in place of the chart, or beside it. */
  #told() {
    const { name, facts, first } = /** @type {Shown} */ (this.current);
    element("released").hidden = !facts.released;
    if (!facts.released) {
      const held = facts.withheld ? " The first values choose the cap and are withheld." : "";
      this.#say(`Nothing is released yet.${held} The chart begins when producers send values, with POST /v1/streams/${name}/values.`);
    } else if (facts.warming && facts.threshold === null) {
      this.#say(`Warm-up: ${shown(facts.warming)} more values are needed. Until then rows are placeholders of level 0, and there are no sums.`);
    } else if (this.working) {
      this.#say("Sums and their intervals are being worked out …");
    } else if (this.chart.x.length) {
      const all = this.chart.history !== null || this.chart.x[0] === first;
      this.#say(all ? "" : `Levels of the newest ${shown(this.chart.x.length)} rows are drawn; zoom in to see earlier ones.`);
    }
  }

  /** @param {string[]} keys */
  async #chosen(keys) {
    const current = this.current;
    if (!current) return;
    current.stop.abort();
    this.current = { ...current, keys, stop: new AbortController() };
    this.chart.clear();
    await this.#rows();
  }

  #lengths() {
    const select = /** @type {HTMLSelectElement} */ (/** @type {unknown} */ (field("view", "over")));
    const options = lengths(this.current?.facts.timed).map((one) => new Option(named(one), one));
    select.replaceChildren(new Option("automatic", ""), ...options);
  }

  /** What is shown: from, to; null: nothing is. */
  #span() {
    const { x, range } = this.chart;
    const first = this.current?.first ?? x[0];
    if (first === undefined || first === null || !x.length) return null;
    if (range) return { from: range[0], to: range[1] };
    const last = x[x.length - 1];
    const after = this.chart.timed ? new Date(Date.parse(instant(last)) + 1000).toISOString() : Number(last) + 1;
    return { from: first, to: after }; // the last row is in it
  }

  /** Names of the axes and lines. @param {string} [over] */
  #words(over) {
    const { facts, keys } = /** @type {Shown} */ (this.current);
    const row = facts.kind?.includes("events") ? "tick" : "row";
    const x = facts.timed ? (facts.zone === null ? "Time" : "Time (UTC)") : "Row";
    const level = `level${keys.length > 1 ? ` of ${keys[0]}` : ""}, ${row} by ${row}`;
    const last = over ? `the last ${named(over)}` : "the last rows";
    this.chart.words = { x, per: `per ${row}`, mean: `mean of ${last}`, sum: `sum of ${last}`, level };
    this.chart.timed = facts.timed;
  }

  /** Moving sums and means over what is shown. */
  async moving() {
    const current = this.current;
    const span = this.#span();
    if (!current || !span || current.facts.released < 2) return;
    const size = sized(span, current.facts.timed, field("view", "over").value);
    const keys = current.keys.length ? current.keys : [undefined];
    const limits = this.chart.range && span;
    const found = await Promise.all(keys.map((key) => moving(current, key, size, limits)));
    if (current !== this.current) return;
    this.#words(size.over);
    this.chart.setBands(found);
    this.#table(found, size.over);
  }

  /** @param {import("./windows.js").Moving[]} found @param {string} over */
  #table(found, over) {
    const rows = found.flatMap(({ name, x, rows: sizes, mean, sum }) =>
      x.map((end, at) => {
        const label = typeof end === "number" ? shown(end) : said(end);
        const numbers = [sum?.middle, sum?.low, sum?.high, mean.middle, mean.low, mean.high];
        return row([found.length > 1 ? `${name}: ${label}` : label, shown(sizes[at]), ...numbers.map((one) => shown(one?.[at], 4))]);
      }),
    );
    element("sums").replaceChildren(...rows.slice(-500).reverse());
    element("table-words").textContent = rows.length
      ? `Each line is about the last ${named(over)} up to there, the newest first. Intervals hold with 95 % confidence.`
      : "Less was released than the window is long: choose a shorter one.";
  }

  /** Show another range. @param {(number | string)[] | null} range */
  #show(range) {
    if (!this.current) return;
    this.chart.show(range);
    this.#moved();
  }

  /** Move by a part of what is shown, or show more or less of it. @param {number} by @param {number} size */
  #shift(by, size) {
    const span = this.#span();
    if (!span) return;
    const number = (/** @type {number | string} */ one) => (this.chart.timed ? Date.parse(instant(one)) : Number(one));
    const [from, to] = [number(span.from), number(span.to)];
    const middle = (from + to) / 2 + by * (to - from);
    const ends = [middle - (size * (to - from)) / 2, middle + (size * (to - from)) / 2];
    this.#show(this.chart.timed ? ends.map((one) => new Date(one).toISOString()) : ends);
  }

  /** The chart shows another range: fetch what it needs. */
  #moved() {
    Promise.all([this.moving(), this.#history()]).catch(this.told);
  }

  /** Levels of a range that begins before those at hand. */
  async #history() {
    const current = this.current;
    const { range, x } = this.chart;
    if (!current || !x.length) return;
    const number = (/** @type {number | string} */ one) => (this.chart.timed ? Date.parse(instant(one)) : Number(one));
    if (range === null || number(range[0]) >= number(x[0]) || current.first === x[0]) {
      this.chart.history = null;
    } else {
      const { timed, zone } = current.facts;
      const [first, last] = range.map((one) => Math.max(0, Math.round(Number(one))));
      /** @type {Record<string, string | number>} */
      const place = timed
        ? { from: asked(range[0], zone !== null), to: asked(range[1], zone !== null), limit: SHOWN }
        : { start: first, limit: Math.min(SHOWN, Math.max(1, last - first)) };
      const page = await get(`/v1/streams/${current.name}/values`, { ...place, ...ofKey(current.keys[0]) });
      if (current !== this.current || range !== this.chart.range) return;
      this.chart.history = points(page.rows);
    }
    this.chart.draw();
    this.#told();
  }

  /** @param {number | string} from @param {number | string} to */
  #picked(from, to) {
    if (!this.current) return;
    fill(from, to, this.current.facts);
    ask(this.current);
  }
}
