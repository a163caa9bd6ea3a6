/**
 * Real values → whole steps of a public resolution; what a number is decides no error.
 *
 * The same policy as Python's `tidegate.lattice`: NaN or a missing value counts as 0, a number is
 * clamped to [lower, bound] and rounded to the nearest step, ties to even.
 */

import { InputError, SettingError } from "./errors.js";
import { Fraction } from "./fraction.js";

// Whole numbers up to here are exact as floats.
const LARGEST = 2n ** 53n;

/**
 * The multiples of `resolution` from `lower` to `bound`, counted −`bottom`, …, 0, …, `top`. A bound
 * that is none is rounded outwards.
 */
export class Lattice {
  #perStep;

  /**
   * @param {Fraction} bound
   * @param {Fraction} resolution
   * @param {Fraction} [lower] at most 0
   */
  constructor(bound, resolution, lower = new Fraction(0n)) {
    // Rounded outwards: values that the public bounds allow would be cut otherwise.
    const down = bound.over(resolution).floor();
    const top = new Fraction(down).compare(bound.over(resolution)) < 0 ? down + 1n : down;
    const bottom = -lower.over(resolution).floor();
    if (resolution.compare(bound) > 0) throw new SettingError("resolution", `must not exceed the bound ${bound}`);
    if (top >= LARGEST || bottom >= LARGEST) {
      throw new SettingError("resolution", "too fine: bound/resolution must stay below 2**53");
    }
    /** How many steps the bound is. */
    this.top = Number(top);
    /** How many steps below 0 the lower bound is. */
    this.bottom = Number(bottom);
    this.#perStep = new Fraction(1n).over(resolution).toNumber();
  }

  /**
   * `value` in steps.
   *
   * @param {unknown} value
   * @returns {number}
   */
  unit(value) {
    const scaled = asNumber(value) * this.#perStep;
    if (scaled >= this.top) return this.top;
    if (scaled <= -this.bottom) return 0 - this.bottom; // never −0
    if (Number.isNaN(scaled)) return 0;
    return scaled > 0 ? roundHalfToEven(scaled) : 0 - roundHalfToEven(-scaled);
  }
}

/** @param {unknown} value */
function asNumber(value) {
  if (typeof value === "number") return value;
  if (value === null || value === undefined) return 0;
  if (typeof value === "bigint" || typeof value === "boolean") return Number(value);
  throw new InputError("the value is not a number");
}

/**
 * What Python's `round` does; `Math.round` takes ties up.
 *
 * @param {number} number positive and below 2**53
 */
function roundHalfToEven(number) {
  const floor = Math.floor(number);
  const rest = number - floor;
  return rest > 0.5 || (rest === 0.5 && floor % 2 === 1) ? floor + 1 : floor;
}
