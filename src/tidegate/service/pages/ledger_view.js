// The ledger as a picture: what each source has spent of its budget, and where that comes from.

import { get } from "./api.js";
import { axis, cleared, colour, COLOURS, escaped, plotted } from "./chart.js";
import { element, row } from "./dom.js";
import { shown } from "./times.js";

/** @typedef {{source: string, spent: number, cap: number | null, left: number | null}} Source */

/** An exact number of the service: a decimal or a fraction. @param {unknown} text */
function number(text) {
  const found = /(-?\d+(?:\.\d+)?(?:e[+-]?\d+)?)(?:\/(\d+))?/i.exec(String(text));
  return found ? Number(found[1]) / Number(found[2] ?? 1) : 0;
}

export class LedgerView {
  constructor() {
    /** @type {Source[]} */ this.sources = [];
    /** @type {any} */ this.detail = null;
    this.chosen = "";
    const select = element("source");
    select.addEventListener("change", () => {
      this.chosen = /** @type {HTMLSelectElement} */ (select).value;
      this.#look().catch(() => {});
    });
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.#draw());
  }

  /** What is left of the budget of each source, by name. @returns {Map<string, Source>} */
  get bySource() {
    return new Map(this.sources.map((one) => [one.source, one]));
  }

  async refresh() {
    const { sources, left = {}, cap, caps = {} } = await get("/v1/ledger");
    this.sources = Object.entries(sources).map(([source, spent]) => {
      const limit = caps[source] ?? cap;
      return { source, spent: number(spent), cap: limit == null ? null : number(limit), left: left[source] == null ? null : number(left[source]) };
    });
    const empty = this.sources.length === 0;
    element("ledger").hidden = false;
    element("no-charges").hidden = !empty;
    element("ledger-picture").hidden = empty;
    element("sources").replaceChildren(
      ...this.sources.map(({ source, spent, cap: limit, left: rest }) =>
        row([source, shown(spent, 4), limit === null ? "no cap" : shown(limit, 4), rest === null ? "—" : shown(rest, 4)]),
      ),
    );
    this.#options();
    if (!empty) await this.#look();
  }

  #options() {
    const select = /** @type {HTMLSelectElement} */ (element("source"));
    const names = this.sources.map((one) => escaped(one.source));
    const known = [...select.options].map((one) => one.value);
    if (names.join("\n") === known.join("\n")) return;
    if (!names.includes(this.chosen)) this.chosen = names[0] ?? "";
    select.replaceChildren(...names.map((name) => new Option(name, name, name === this.chosen, name === this.chosen)));
  }

  async #look() {
    this.detail = await get(`/v1/sources/${encodeURIComponent(this.chosen)}`);
    this.#draw();
  }

  #draw() {
    if (!this.detail || element("ledger").hidden) return;
    this.#bars();
    this.#ranges();
  }

  /** A bar for each source: spent, and what is left until the cap. */
  #bars() {
    const place = element("sources-chart");
    const names = this.sources.map((one) => one.source);
    const frame = place.clientWidth < 480 ? 8.5 : 6; // on a phone the legend takes two lines
    place.style.height = `${frame + 2.2 * names.length}rem`;
    const bar = { type: "bar", orientation: "h", y: names };
    const spent = {
      ...bar,
      name: "spent",
      x: this.sources.map((one) => one.spent),
      marker: { color: colour("--blue") },
      hovertemplate: "spent ε = %{x:.4~g}<extra></extra>",
    };
    const left = {
      ...bar,
      name: "left until the cap",
      x: this.sources.map((one) => Math.max(0, one.left ?? 0)),
      text: this.sources.map((one) => (one.left === null ? "no cap" : `${shown(one.left, 3)} left`)),
      textposition: "auto",
      textfont: { color: colour("--ink") },
      outsidetextfont: { color: colour("--ink") },
      cliponaxis: false,
      marker: { color: "rgba(0,0,0,0)", line: { color: colour("--blue"), width: 1 } },
      hovertemplate: "%{text}<extra></extra>",
    };
    plotted(place, [spent, left], {
      barmode: "stack",
      margin: { l: 10, r: 60, t: 6, b: 46 },
      xaxis: { ...axis("ε, at the row that has spent most"), rangemode: "tozero", fixedrange: true },
      yaxis: { color: colour("--ink"), automargin: true, fixedrange: true, autorange: "reversed", type: "category", ticklabelstandoff: 6 },
      legend: { orientation: "h", y: 1.02, yanchor: "bottom" },
    });
  }

  /** A box for each charge on each range of rows: boxes on top of each other add up. */
  #ranges() {
    const place = element("ranges-chart");
    const { ranges, cap } = this.detail;
    const kinds = [...new Set(ranges.flatMap((/** @type {any} */ one) => one.charges.map(kind)))];
    const labels = ranges.map(rowsOf);
    const traces = kinds.map((name, at) => ({
      type: "bar",
      name: escaped(name),
      x: labels,
      y: ranges.map((/** @type {any} */ one) =>
        one.charges.filter((/** @type {any} */ charge) => kind(charge) === name).reduce((/** @type {number} */ sum, /** @type {any} */ charge) => sum + number(charge.epsilon), 0),
      ),
      marker: { color: colour(COLOURS[at % COLOURS.length]), line: { color: colour("--panel"), width: 2 } },
      hovertemplate: `ε = %{y:.4~g}<extra>${escaped(name)}</extra>`,
    }));
    const others = ranges.map((/** @type {any} */ one) => number(one.others));
    if (others.some(Boolean)) {
      traces.push({ type: "bar", name: "more charges", x: labels, y: others, marker: { color: colour("--quiet"), line: { color: colour("--panel"), width: 2 } }, hovertemplate: "ε = %{y:.4~g}<extra>more</extra>" });
    }
    const limit = cap === null ? null : number(cap);
    const line = { type: "line", xref: "paper", x0: 0, x1: 1, y0: limit, y1: limit, line: { color: colour("--wrong"), width: 2, dash: "dash" } };
    const word = { text: `cap ${shown(limit, 4)}`, xref: "paper", x: 1, xanchor: "right", y: limit, yanchor: "bottom", showarrow: false, font: { color: colour("--wrong") } };
    const highest = Math.max(limit ?? 0, ...ranges.map((/** @type {any} */ one) => number(one.spent)));
    cleared(place); // another source has other ranges
    plotted(place, traces, {
      barmode: "stack",
      bargap: 0.04,
      margin: { l: 55, r: 12, t: 10, b: 44 },
      xaxis: { ...axis("rows of the source (not to scale)"), type: "category", fixedrange: true },
      yaxis: { ...axis("ε"), fixedrange: true, range: [0, 1.12 * highest] },
      shapes: limit === null ? [] : [line],
      annotations: limit === null ? [] : [word],
      showlegend: true,
      legend: { orientation: "h", y: 1.02, yanchor: "bottom" },
    });
    this.#rangeTable(ranges);
  }

  /** @param {any[]} ranges */
  #rangeTable(ranges) {
    element("charges").replaceChildren(
      ...ranges.map((one) => {
        const parts = one.charges.map((/** @type {any} */ charge) => `${kind(charge)} ${shown(number(charge.epsilon), 4)}`);
        const more = number(one.others) ? [`more charges ${shown(number(one.others), 4)}`] : [];
        return row([rowsOf(one), [...parts, ...more].join(" + "), shown(number(one.spent), 4)]);
      }),
    );
    const left = this.detail.left_out;
    element("charges-words").textContent =
      "Each box is a charge. Boxes on top of each other were charged to the same rows and add up; the highest stack counts against the cap." +
      (left ? ` ${shown(left)} ranges are left out: shown are the newest and the one that has spent most.` : "");
  }
}

/** @param {any} charge */
function kind(charge) {
  const stage = charge.stage === "stream" ? "" : `, ${charge.stage}`;
  return `${charge.stream || "an earlier stream"}${stage}${charge.part ? ` (part ${charge.part})` : ""}`;
}

/** @param {any} range */
function rowsOf(range) {
  return range.end === null ? `from ${shown(range.start, 15)} on` : `${shown(range.start, 15)} to ${shown(range.end - 1, 15)}`;
}
