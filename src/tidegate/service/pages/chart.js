// The chart of a stream: above, released levels and moving means; below, moving sums. Bands are
// intervals. A task of devices has the upper part only.

import { moment } from "./times.js";

/** @typedef {import("./windows.js").Moving} Moving */
/** @typedef {import("./windows.js").Band} Band */

/** @type {any} */
const Plotly = /** @type {any} */ (window).Plotly;
const MOST = 20_000; // points of a line
const LET_GO = 50; // milliseconds, after which a range that was dragged has been taken
export const COLOURS = ["--blue", "--second", "--third", "--fourth", "--fifth"];

/** @param {string} name */
export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

// A chart that was drawn while its place had another width, or none, is drawn again.
const watched = new ResizeObserver((changes) => {
  for (const { target } of changes) {
    const place = /** @type {any} */ (target);
    if (place.data && place.offsetWidth && place.offsetWidth !== place._fullLayout?.width) Plotly.Plots.resize(place);
  }
});

/** The chart reads a little HTML: a key or a stream could be named like a link. @param {string} text */
export function escaped(text) {
  return text.replace(/&/g, "&amp;").replace(/</g, "&lt;");
}

/** What all charts share. @param {HTMLElement} place @param {any[]} traces @param {any} layout */
export function plotted(place, traces, layout) {
  const quiet = colour("--quiet");
  const common = {
    paper_bgcolor: "rgba(0,0,0,0)",
    plot_bgcolor: "rgba(0,0,0,0)",
    font: { color: colour("--ink"), family: "system-ui, sans-serif" },
    modebar: { bgcolor: "rgba(0,0,0,0)", color: quiet, activecolor: colour("--blue") },
    hoverlabel: { bgcolor: colour("--paper"), bordercolor: colour("--line"), font: { color: colour("--ink") } },
  };
  const settings = {
    responsive: true,
    displaylogo: false,
    showSendToCloud: false, // by default the library offers to send the chart to its maker's servers
    plotlyServerURL: "",
    modeBarButtonsToRemove: ["lasso2d", "autoScale2d"],
    // Without a mouse the bar would lie on the legend all the time; the page has buttons of its own.
    ...(matchMedia("(hover: none)").matches ? { displayModeBar: false } : {}),
  };
  watched.observe(place);
  return Plotly.react(place, traces, { ...common, ...layout }, settings);
}

/** An axis that says what it shows. @param {string} text */
export function axis(text) {
  const quiet = colour("--quiet");
  return { color: quiet, gridcolor: colour("--line"), zeroline: false, automargin: true, title: { text, standoff: 8, font: { size: 12 } } };
}

/** @param {HTMLElement} place */
export function cleared(place) {
  if (/** @type {any} */ (place).data) Plotly.purge(place);
}

export class Chart {
  /**
   * @param {HTMLElement} place
   * @param {(from: number | string, to: number | string) => void} picked a range was dragged
   * @param {(range: (number | string)[] | null) => void} moved the chart shows another range
   */
  constructor(place, picked, moved) {
    this.place = place;
    this.picked = picked;
    this.moved = moved;
    this.timed = false;
    this.words = { x: "", per: "", mean: "", sum: "", level: "level" };
    this.steps = false; // a band of parts instead of a moving one
    /** @type {(number | string)[]} */ this.x = [];
    /** @type {number[]} */ this.levels = [];
    this.begins = false; // the first of them is the first row of the stream
    /** @type {Points | null} */ this.history = null;
    /** @type {Moving[]} */ this.bands = [];
    /** @type {(number | string)[] | null} */ this.range = null; // what is shown; null: everything
    this.due = false;
    this.shown = 0; // another stream, another view
    this.held = false; // a range is being dragged: to draw now would lose it
    place.addEventListener("pointerdown", () => {
      this.held = true;
    });
    for (const end of ["pointerup", "pointercancel"]) {
      window.addEventListener(end, () => this.held && setTimeout(() => this.#letGo(), LET_GO));
    }
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  #letGo() {
    this.held = false;
    if (this.due) this.draw();
  }

  clear() {
    this.x = [];
    this.levels = [];
    this.history = null;
    this.bands = [];
    this.range = null;
    this.due = false;
    this.shown += 1;
    cleared(this.place);
    delete this.place.dataset.listening;
  }

  /** Show this range; null: everything. @param {(number | string)[] | null} range */
  show(range) {
    this.range = range;
    this.shown += 1;
    this.draw();
  }

  /** @param {{first: number, levels: number[], places?: number[], positions?: number[], times?: string[]}} rows */
  add(rows) {
    this.timed = rows.times !== undefined;
    const { x, levels, begins } = points([rows]);
    if (!this.x.length) this.begins = begins;
    for (const one of x) this.x.push(one);
    for (const one of levels) this.levels.push(one);
    const extra = this.x.length - MOST;
    if (extra > 0) {
      this.x.splice(0, extra);
      this.levels.splice(0, extra);
      this.begins = false;
    }
    if (!this.due) {
      this.due = true;
      requestAnimationFrame(() => this.due && this.draw());
    }
  }

  /** @param {Moving[]} bands */
  setBands(bands) {
    this.bands = bands;
    this.draw();
  }

  /** @param {Moving} one @param {number} at @param {"mean" | "sum"} of */
  #band(one, at, of) {
    const found = /** @type {Band} */ (one[of]);
    const line = colour(COLOURS[at % COLOURS.length]);
    const shape = this.steps ? "hv" : "linear";
    const several = this.bands.length > 1;
    const common = { x: one.x, mode: "lines", yaxis: of === "mean" ? "y" : "y2", legendgroup: one.name || of };
    const edge = { ...common, line: { width: 0, shape }, hoverinfo: "skip", showlegend: false };
    const number = ",.4~r";
    return [
      { ...edge, y: found.low },
      { ...edge, y: found.high, fill: "tonexty", fillcolor: `${line}33` },
      {
        ...common,
        y: found.middle,
        name: escaped(several ? one.name : `${of === "mean" ? this.words.mean : this.words.sum}, with 95 % interval`),
        showlegend: of === "mean" || !several,
        line: { color: line, width: 2, shape },
        customdata: found.low.map((low, index) => [low ?? "?", found.high[index] ?? "?"]),
        hovertemplate: `%{y:${number}} (%{customdata[0]:${number}} to %{customdata[1]:${number}})<extra>${several ? escaped(one.name) : of}</extra>`,
      },
    ];
  }

  draw() {
    this.due = this.held;
    if (this.held) return;
    const two = this.bands.some((one) => one.sum);
    const means = this.bands.flatMap((one, at) => this.#band(one, at, "mean"));
    const sums = this.bands.flatMap((one, at) => (one.sum ? this.#band(one, at, "sum") : []));
    const line = { color: colour("--quiet"), width: 1, shape: "hv" };
    const level = { name: escaped(this.words.level), mode: "lines", line, hovertemplate: "%{y:,.4~r}<extra>level</extra>" };
    const { x, levels } = measured(this.history ?? this);
    const shownLevels = x.length ? [{ x, y: levels, ...level }] : [];
    if (![...means, ...shownLevels].length) return;
    const whole = this.range === null;
    plotted(this.place, [...shownLevels, ...means, ...sums], {
      margin: { l: 60, r: 12, t: 10, b: 44 },
      xaxis: {
        ...axis(this.words.x),
        type: this.timed ? "date" : "linear",
        anchor: two ? "y2" : "y",
        ...(whole ? { autorange: true } : { range: this.range, autorange: false }),
      },
      yaxis: { ...axis(this.words.per), fixedrange: true, domain: two ? [0.45, 1] : [0, 1] },
      ...(two ? { yaxis2: { ...axis("sum"), fixedrange: true, domain: [0, 0.38] } } : {}),
      dragmode: matchMedia("(pointer: coarse)").matches ? false : "select", // a finger scrolls the page
      selectdirection: "h",
      hovermode: "x",
      legend: { orientation: "h", y: 1.02, yanchor: "bottom" },
      uirevision: this.shown, // zoom and pan stay while data arrive
    }).then(() => this.#listen());
  }

  #listen() {
    const place = /** @type {any} */ (this.place);
    if (place.dataset.listening || !place.on) return;
    place.dataset.listening = "yes";
    place.on("plotly_selected", (/** @type {any} */ event) => {
      if (event?.range?.x) this.picked(event.range.x[0], event.range.x[1]);
    });
    place.on("plotly_relayout", (/** @type {any} */ event) => {
      if (event["xaxis.autorange"]) this.#told(null);
      else if ("xaxis.range[0]" in event) this.#told([event["xaxis.range[0]"], event["xaxis.range[1]"]]);
    });
  }

  /** The reader zoomed or panned. @param {(number | string)[] | null} range */
  #told(range) {
    this.range = range;
    this.moved(range);
  }
}

/** @typedef {{x: (number | string)[], levels: number[], begins: boolean}} Points */

/**
 * Without the placeholders of a warm-up: a stream begins with levels of 0 until it is measured.
 * @param {Points} points
 */
function measured({ x, levels, begins }) {
  const from = begins ? Math.max(0, levels.findIndex((level) => level !== 0)) : 0;
  return { x: x.slice(from), levels: levels.slice(from) };
}

/**
 * Rows as points of a line.
 * @param {{first: number, levels: number[], places?: number[], positions?: number[], times?: string[]}[]} parts
 * @returns {Points}
 */
export function points(parts) {
  /** @type {(number | string)[]} */ const x = [];
  /** @type {number[]} */ const levels = [];
  const [rows] = parts;
  const begins = rows !== undefined && (rows.positions?.[0] ?? rows.places?.[0] ?? rows.first) === 0;
  for (const rows of parts) {
    rows.levels.forEach((level, at) => {
      const place = rows.positions?.[at] ?? rows.places?.[at] ?? rows.first + at;
      x.push(rows.times ? moment(rows.times[at]) : place);
      levels.push(level);
    });
  }
  return { x, levels, begins };
}
