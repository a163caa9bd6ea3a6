/** One bit: is the value above a level? */

import { SettingError } from "../errors.js";
import { checkLoss, WORDS } from "../loss.js";
import { field, LARGEST, LARGEST_TEXT, numberWithin, wholeField } from "./question.js";

/** @import { Fraction } from "../fraction.js" */
/** @import { Words } from "../words.js" */

/** The forms of a message. */
export const [ABOVE, BELOW] = ["tail", "tail-below"];

/**
 * Is value + dither·(U − ½) above `level`? Answered by randomized response. `below` asks about the
 * other side of 0: −value in the place of the value.
 *
 * What is released: one bit. P(1) is truth/2**32 or lie/2**32, whatever U was: ε-private as
 * truth ≤ e^ε·lie, which `check` decides in whole numbers.
 */
export class TailQuestion {
  reports = 2;

  /**
   * @param {{ level: number, dither: number, lie: number, below?: boolean }} fields in steps; the
   *   weight of a lie; whether −value is asked about
   */
  constructor({ level, dither, lie, below = false }) {
    this.form = below ? BELOW : ABOVE;
    this.below = below;
    this.level = level;
    this.dither = dither;
    this.lie = lie;
    for (const [name, steps] of Object.entries({ level, dither })) {
      if (!(steps >= 0 && steps <= LARGEST)) {
        throw new SettingError(name, `must be from 0 to ${LARGEST_TEXT}`);
      }
    }
    if (!(lie > 0 && lie <= WORDS / 2)) {
      throw new SettingError("lie", "must be from 1 to 2**31: at most every other answer");
    }
    Object.freeze(this);
  }

  /** The largest number of steps it speaks of. */
  get reach() {
    return this.below ? 0 : Math.max(this.level, this.dither);
  }

  /** The largest number of steps below 0 it speaks of. */
  get reachBelow() {
    return this.below ? Math.max(this.level, this.dither) : 0;
  }

  /**
   * Refuse unless truth ≤ e^ε·lie.
   *
   * @param {Fraction} epsilon
   * @returns {void}
   */
  check(epsilon) {
    const truth = WORDS - this.lie;
    checkLoss([[Math.min(this.lie, truth), Math.max(this.lie, truth)]], epsilon);
  }

  /**
   * The dither, then the coin.
   *
   * @param {number} value
   * @param {Words} words
   * @returns {number}
   */
  answer(value, words) {
    const steps = Math.max(this.below ? -value : value, 0);
    const dithered = steps + this.dither * (words() / WORDS - 0.5);
    const lies = words() < this.lie;
    return dithered > this.level !== lies ? 1 : 0;
  }

  /**
   * For a message.
   *
   * @returns {Record<string, unknown>}
   */
  toJSON() {
    return { form: this.form, level: this.level, dither: this.dither, lie: this.lie };
  }

  /**
   * From a message.
   *
   * @param {Record<string, unknown>} plain
   * @returns {TailQuestion}
   */
  static fromPlain(plain) {
    return new TailQuestion({
      level: numberWithin(field(plain, "level"), "level"),
      dither: numberWithin(field(plain, "dither"), "dither"),
      lie: wholeField(plain, "lie", 1, WORDS / 2),
      below: field(plain, "form") === BELOW,
    });
  }
}
