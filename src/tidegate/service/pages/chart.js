// The chart of a stream: released levels, and means with their intervals.

/** @type {any} */
const Plotly = /** @type {any} */ (window).Plotly;
const MOST = 20_000; // points of a line

/** @param {string} name */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
}

export class Chart {
  /** @param {HTMLElement} place @param {(from: number | string, to: number | string) => void} picked */
  constructor(place, picked) {
    this.place = place;
    this.picked = picked;
    this.timed = false;
    /** @type {(number | string)[]} */ this.x = [];
    /** @type {number[]} */ this.levels = [];
    /** @type {{x: (number|string)[], middle: number[], low: number[], high: number[]}} */
    this.means = { x: [], middle: [], low: [], high: [] };
    this.due = false;
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  clear() {
    this.x = [];
    this.levels = [];
    this.means = { x: [], middle: [], low: [], high: [] };
    this.due = false;
  }

  /** @param {{first: number, levels: number[], times?: string[]}} rows */
  add(rows) {
    this.timed = rows.times !== undefined;
    rows.levels.forEach((level, at) => {
      this.x.push(rows.times ? milliseconds(rows.times[at]) : rows.first + at);
      this.levels.push(level);
    });
    const extra = this.x.length - MOST;
    if (extra > 0) {
      this.x.splice(0, extra);
      this.levels.splice(0, extra);
    }
    if (!this.due) {
      this.due = true;
      requestAnimationFrame(() => this.draw());
    }
  }

  /** @param {{x: (number|string)[], middle: number[], low: number[], high: number[]}} means */
  setMeans(means) {
    this.means = means;
    this.draw();
  }

  draw() {
    this.due = false;
    const { x, middle, low, high } = this.means;
    const blue = colour("--blue");
    const quiet = colour("--quiet");
    const axis = { color: quiet, gridcolor: colour("--line"), zeroline: false };
    const band = { line: { width: 0, shape: "hv" }, hoverinfo: "skip", showlegend: false, mode: "lines" };
    const traces = [
      { x, y: low, ...band },
      { x, y: high, ...band, fill: "tonexty", fillcolor: colour("--band") },
      { x, y: middle, name: "mean, with 95 % interval", mode: "lines", line: { color: blue, width: 2, shape: "hv" } },
      { x: this.x, y: this.levels, name: "level", mode: "lines", line: { color: quiet, width: 1 } },
    ];
    Plotly.react(
      this.place,
      traces,
      {
        margin: { l: 50, r: 10, t: 10, b: 40 },
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        font: { color: colour("--ink") },
        xaxis: { ...axis, type: this.timed ? "date" : "linear" },
        yaxis: axis,
        dragmode: "select",
        selectdirection: "h",
        modebar: { bgcolor: "rgba(0,0,0,0)", color: quiet, activecolor: blue },
        legend: { orientation: "h", y: 1.1 },
        uirevision: "kept", // zoom and pan stay while data arrive
      },
      { responsive: true, displaylogo: false, modeBarButtonsToRemove: ["lasso2d"] },
    ).then(() => this.#listen());
  }

  #listen() {
    const place = /** @type {any} */ (this.place);
    if (place.dataset.listening) return;
    place.dataset.listening = "yes";
    place.on("plotly_selected", (/** @type {any} */ event) => {
      if (event?.range?.x) this.picked(event.range.x[0], event.range.x[1]);
    });
  }
}

/** A time in nanoseconds, as text, in a form that the chart understands. @param {string} ticks */
export function milliseconds(ticks) {
  return new Date(Number(BigInt(ticks) / 1_000_000n)).toISOString();
}
