// The chart of a stream: released levels, and means with their intervals, key by key.

/** @type {any} */
const Plotly = /** @type {any} */ (window).Plotly;
const MOST = 20_000; // points of a line
const COLOURS = ["--blue", "--second", "--third", "--fourth", "--fifth"];

/**
 * @typedef {{name: string, x: (number|string)[], middle: (number|null)[], low: (number|null)[], high: (number|null)[]}} Means
 */

/** @param {string} name */
function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(name).trim();
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
    /** @type {(number | string)[]} */ this.x = [];
    /** @type {number[]} */ this.levels = [];
    /** @type {Means[]} */ this.means = [];
    this.due = false;
    this.shown = 0; // another stream, another view
    matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => this.draw());
  }

  clear() {
    this.x = [];
    this.levels = [];
    this.means = [];
    this.due = false;
    this.shown += 1;
    if (/** @type {any} */ (this.place).data) Plotly.purge(this.place);
    delete this.place.dataset.listening;
  }

  /** Forget zoom and pan. */
  whole() {
    this.shown += 1;
    this.draw();
  }

  /** @param {{first: number, levels: number[], places?: number[], positions?: number[], times?: string[]}} rows */
  add(rows) {
    this.timed = rows.times !== undefined;
    rows.levels.forEach((level, at) => {
      const place = rows.positions ? rows.positions[at] : rows.first + at;
      this.x.push(rows.times ? moment(rows.times[at]) : place);
      this.levels.push(level);
    });
    const extra = this.x.length - MOST;
    if (extra > 0) {
      this.x.splice(0, extra);
      this.levels.splice(0, extra);
    }
    if (!this.due) {
      this.due = true;
      requestAnimationFrame(() => this.due && this.draw());
    }
  }

  /** @param {Means[]} means */
  setMeans(means) {
    this.means = means;
    this.draw();
  }

  draw() {
    this.due = false;
    const quiet = colour("--quiet");
    const axis = { color: quiet, gridcolor: colour("--line"), zeroline: false };
    const band = { line: { width: 0, shape: "hv" }, hoverinfo: "skip", showlegend: false, mode: "lines" };
    const traces = this.means.flatMap(({ name, x, middle, low, high }, at) => {
      const line = colour(COLOURS[at % COLOURS.length]);
      return [
        { x, y: low, ...band },
        { x, y: high, ...band, fill: "tonexty", fillcolor: `${line}33` },
        { x, y: middle, name, mode: "lines", line: { color: line, width: 2, shape: "hv" } },
      ];
    });
    const level = { x: this.x, y: this.levels, name: "level", mode: "lines", line: { color: quiet, width: 1 } };
    Plotly.react(
      this.place,
      [...traces, ...(this.x.length ? [level] : [])],
      {
        margin: { l: 50, r: 10, t: 10, b: 40 },
        paper_bgcolor: "rgba(0,0,0,0)",
        plot_bgcolor: "rgba(0,0,0,0)",
        font: { color: colour("--ink") },
        xaxis: { ...axis, type: this.timed ? "date" : "linear" },
        yaxis: { ...axis, fixedrange: true },
        dragmode: "select",
        selectdirection: "h",
        modebar: { bgcolor: "rgba(0,0,0,0)", color: quiet, activecolor: colour("--blue") },
        legend: { orientation: "h", y: 1.1 },
        uirevision: this.shown, // zoom and pan stay while data arrive
      },
      { responsive: true, displaylogo: false, scrollZoom: true, modeBarButtonsToRemove: ["lasso2d"] },
    ).then(() => this.#listen());
  }

  #listen() {
    const place = /** @type {any} */ (this.place);
    if (place.dataset.listening) return;
    place.dataset.listening = "yes";
    place.on("plotly_selected", (/** @type {any} */ event) => {
      if (event?.range?.x) this.picked(event.range.x[0], event.range.x[1]);
    });
    place.on("plotly_relayout", (/** @type {any} */ event) => {
      if (event["xaxis.autorange"]) this.moved(null);
      else if ("xaxis.range[0]" in event) this.moved([event["xaxis.range[0]"], event["xaxis.range[1]"]]);
    });
  }
}

/** A time in nanoseconds, as text, in a form that the chart understands. @param {string} ticks */
export function moment(ticks) {
  return new Date(Number(BigInt(ticks) / 1_000_000n)).toISOString();
}

/** What the chart calls a time, as the service understands it. @param {number | string} when */
export function instant(when) {
  const text = String(when).replace(" ", "T");
  return new Date(text.endsWith("Z") ? text : `${text}Z`).toISOString();
}
