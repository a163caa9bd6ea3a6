/** The square wave: a report near the value is likelier than one elsewhere. */

import { SettingError } from "../errors.js";
import { checkLoss, WORDS } from "../loss.js";
import { drawn, LEAST_TOTAL, wholeField } from "./question.js";

/** @import { Fraction } from "../fraction.js" */
/** @import { Words } from "../words.js" */

const MOST_STEPS = 2 ** 37; // times the number of bins, exact as a float
const MOST_BINS = 2 ** 16;

/**
 * The value's bin, reported as one of bins + 2·half cells.
 *
 * A value of v steps of 0…top lies in bin ⌊v·bins/(top+1)⌋. Its cell i + half is the middle of a
 * window of 2·half + 1 cells of weight `high`; every other cell has weight `low`. All rows have the
 * same total, so the ratio of probabilities is high/low: ε-private as high ≤ e^ε·low.
 */
export class WaveQuestion {
  form = "wave";

  /** @param {{ top: number, bins: number, half: number, high: number, low: number }} fields */
  constructor({ top, bins, half, high, low }) {
    this.top = top;
    this.bins = bins;
    this.half = half;
    this.high = high;
    this.low = low;
    this.reports = bins + 2 * half;
    /** The sum of a row's weights. */
    this.total = (2 * half + 1) * high + (bins - 1) * low;
    if (!(0 < top && top <= MOST_STEPS && 0 < bins && bins <= MOST_BINS && half >= 0)) {
      throw new SettingError("bins", "top and bins must be greater than 0, half not negative");
    }
    if (!(0 < low && low <= high) || this.total > WORDS) {
      throw new SettingError("high", "weights must be positive, high ≥ low, and fit 32 bits");
    }
    Object.freeze(this);
  }

  /** The largest number of steps it speaks of. */
  get reach() {
    return this.top;
  }

  /** It speaks of no value below 0. */
  get reachBelow() {
    return 0;
  }

  /**
   * Refuse unless high ≤ e^ε·low.
   *
   * @param {Fraction} epsilon
   * @returns {void}
   */
  check(epsilon) {
    checkLoss([[this.low, this.high]], epsilon);
  }

  /**
   * One word below the total picks the cell.
   *
   * (Products stay within 2**53, and rounding a quotient of such whole numbers never lifts it to the
   * next whole one, so the floors are exact.)
   *
   * @param {number} value
   * @param {Words} words
   * @returns {number}
   */
  answer(value, words) {
    const cut = Math.min(Math.max(value, 0), this.top);
    const start = Math.floor((cut * this.bins) / (this.top + 1));
    const word = drawn(this.total, words);
    const before = start * this.low;
    const window = (2 * this.half + 1) * this.high;
    if (word < before) return Math.floor(word / this.low);
    if (word < before + window) return start + Math.floor((word - before) / this.high);
    return start + 2 * this.half + 1 + Math.floor((word - before - window) / this.low);
  }

  /**
   * For a message.
   *
   * @returns {Record<string, unknown>}
   */
  toJSON() {
    return {
      form: this.form,
      top: this.top,
      bins: this.bins,
      half: this.half,
      high: this.high,
      low: this.low,
    };
  }

  /**
   * From a message.
   *
   * @param {Record<string, unknown>} plain
   * @returns {WaveQuestion}
   */
  static fromPlain(plain) {
    const question = new WaveQuestion({
      top: wholeField(plain, "top", 1, MOST_STEPS),
      bins: wholeField(plain, "bins", 1, MOST_BINS),
      half: wholeField(plain, "half", 0, MOST_BINS),
      high: wholeField(plain, "high", 1, WORDS),
      low: wholeField(plain, "low", 1, WORDS),
    });
    if (question.total < LEAST_TOTAL) {
      throw new SettingError("high", "the weights must add up to at least 2**24");
    }
    return question;
  }
}
