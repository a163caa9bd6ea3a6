/** An unbiased report of the value itself, from a public table of whole-number weights. */

import { SettingError } from "../errors.js";
import { checkLoss, WORDS } from "../loss.js";
import {
  drawn,
  field,
  isWhole,
  LARGEST,
  LARGEST_TEXT,
  LEAST_TOTAL,
  numberWithin,
  wholeField,
} from "./question.js";

/** @import { Fraction } from "../fraction.js" */
/** @import { Words } from "../words.js" */

const MOST_CELLS = 2 ** 15; // the largest table of Tidegate has half as many

/**
 * Your value, cut at `threshold` and at `lowest`, as a report of a table.
 *
 * The value is cut and mapped to x in [−1, 1], `lowest` to −1 and `threshold` to 1. Row i of the table stands for the mean of its reports,
 * Σ weight·output/total. x lies between two such means; a coin takes one of the two rows such that
 * the mean is x, and a second word draws a report from it.
 *
 * What is released: the number of a column. Every row gives it with probability weight/total; the coin
 * only mixes rows. So it is ε-private as largest ≤ e^ε·least in every column, which `check` decides in
 * whole numbers. Which rows are mixed is decided in floats: accuracy, not privacy.
 */
export class ValueQuestion {
  form = "value";
  #ends;

  /**
   * @param {{ threshold: number, weights: number[][], outputs: number[], lowest?: number }} fields
   *   smaller values than `lowest` (at most 0) count as this
   */
  constructor({ threshold, weights, outputs, lowest = 0 }) {
    this.threshold = threshold;
    this.lowest = lowest;
    this.weights = weights;
    this.outputs = outputs;
    this.reports = outputs.length;
    if (!(threshold >= 1 && threshold <= LARGEST)) {
      throw new SettingError("threshold", "must be from 1 to 2**53 steps");
    }
    // The difference is compared in whole numbers: as a float it might be rounded down.
    if (lowest > 0 || BigInt(threshold) - BigInt(lowest) > BigInt(LARGEST)) {
      throw new SettingError("lowest", "must be at most 0, and 2**53 steps below the threshold");
    }
    if (weights.length < 2 || weights.some((row) => row.length !== outputs.length)) {
      throw new SettingError("weights", "must be at least two rows, as wide as the outputs");
    }
    /** The sum of a row's weights. */
    this.total = sum(weights[0]);
    if (weights.some((row) => sum(row) !== this.total) || !(0 < this.total && this.total <= WORDS)) {
      throw new SettingError("weights", "rows must have one total, of at most 2**32");
    }
    if (weights.some((row) => row.some((weight) => weight <= 0))) {
      throw new SettingError("weights", "must be greater than 0");
    }
    if (!outputs.every((output) => Math.abs(output) <= LARGEST)) {
      throw new SettingError("outputs", `must be from -${LARGEST_TEXT} to ${LARGEST_TEXT}`);
    }
    /** What each row's reports are worth on average, on [−1, 1]. */
    const means = (this.means = weights.map((row) => mean(row, outputs)));
    if (!means.every((high, row) => row === 0 || means[row - 1] < high)) {
      throw new SettingError("weights", "the means of the rows must grow");
    }
    if (!(means[0] <= -1 && means[means.length - 1] >= 1)) {
      throw new SettingError("outputs", "the means of the rows must reach from -1 to 1");
    }
    this.#ends = weights.map(runningSums);
    Object.freeze(this);
  }

  /** The largest number of steps it speaks of. */
  get reach() {
    return this.threshold;
  }

  /** The largest number of steps below 0 it speaks of. */
  get reachBelow() {
    return -this.lowest;
  }

  /**
   * Refuse unless largest ≤ e^ε·least in every column.
   *
   * @param {Fraction} epsilon
   * @returns {void}
   */
  check(epsilon) {
    checkLoss(
      this.outputs.map((_, column) => this.#extremes(column)),
      epsilon,
    );
  }

  /**
   * A coin takes the row, a word below the total takes the column.
   *
   * @param {number} value
   * @param {Words} words
   * @returns {number}
   */
  answer(value, words) {
    const { threshold, lowest } = this;
    const cut = Math.min(Math.max(value, lowest), threshold) - lowest;
    const x = (2 * cut) / (threshold - lowest) - 1;
    const { means } = this;
    // The last row but one whose mean is not above x, so that there is a next one.
    const row = countNotAbove(means, 1, means.length - 1, x) - 1;
    const fraction = (x - means[row]) / (means[row + 1] - means[row]);
    const coin = Math.floor(fraction * WORDS);
    const ends = this.#ends[words() < coin ? row + 1 : row];
    return countNotAbove(ends, 0, ends.length, drawn(this.total, words));
  }

  /**
   * @param {number} column
   * @returns {[number, number]}
   */
  #extremes(column) {
    let [least, largest] = [Infinity, 0];
    for (const row of this.weights) {
      least = Math.min(least, row[column]);
      largest = Math.max(largest, row[column]);
    }
    return [least, largest];
  }

  /**
   * For a message.
   *
   * @returns {Record<string, unknown>}
   */
  toJSON() {
    return {
      form: this.form,
      ...(this.lowest ? { lowest: this.lowest } : {}),
      threshold: this.threshold,
      weights: this.weights,
      outputs: this.outputs,
    };
  }

  /**
   * From a message.
   *
   * @param {Record<string, unknown>} plain
   * @returns {ValueQuestion}
   */
  static fromPlain(plain) {
    const [rows, outputs] = [field(plain, "weights"), field(plain, "outputs")];
    if (!Array.isArray(rows) || !rows.every(Array.isArray)) {
      throw new SettingError("weights", "must be a list of rows");
    }
    if (!Array.isArray(outputs) || rows.length * outputs.length > MOST_CELLS) {
      throw new SettingError("outputs", `must be a list, of at most ${MOST_CELLS} cells`);
    }
    if (!rows.every((row) => row.every(isWhole))) {
      throw new SettingError("weights", "must be whole numbers");
    }
    const question = new ValueQuestion({
      threshold: wholeField(plain, "threshold", 1, LARGEST),
      weights: rows.map((row) => [...row]),
      outputs: outputs.map((output) => numberWithin(output, "outputs")),
      lowest: Object.hasOwn(plain, "lowest") ? wholeField(plain, "lowest", -LARGEST, -1) : 0,
    });
    if (question.total < LEAST_TOTAL) {
      throw new SettingError("weights", "rows must add up to at least 2**24");
    }
    return question;
  }
}

/**
 * Σ weight·output/total, added from left to right: the same bits in every client.
 *
 * @param {number[]} row
 * @param {number[]} outputs
 */
function mean(row, outputs) {
  let total = 0;
  for (let column = 0; column < row.length; column += 1) total += row[column] * outputs[column];
  return total / sum(row);
}

/** @param {number[]} row */
function sum(row) {
  return row.reduce((total, weight) => total + weight, 0);
}

/** @param {number[]} row */
function runningSums(row) {
  const ends = new Float64Array(row.length);
  let total = 0;
  for (let column = 0; column < row.length; column += 1) ends[column] = total += row[column];
  return ends;
}

/**
 * How many of growing numbers, of those before `stop`, are not above `limit`; at least `start`.
 *
 * @param {ArrayLike<number>} numbers
 * @param {number} start
 * @param {number} stop
 * @param {number} limit
 */
function countNotAbove(numbers, start, stop, limit) {
  let [low, high] = [start, stop];
  while (low < high) {
    const middle = (low + high) >>> 1;
    if (numbers[middle] <= limit) low = middle + 1;
    else high = middle;
  }
  return low;
}
