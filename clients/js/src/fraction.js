/**
 * Exact fractions: budgets and bounds are never floats.
 *
 * The float 0.1 is a little more than 1/10 and would overspend a budget, so a number is taken as it
 * is written in decimal, as Python's `tidegate.exact_numbers.exact` does.
 */

import { SettingError } from "./errors.js";

const DECIMAL = /^([+-]?)(\d{1,400})(?:\.(\d{1,400}))?(?:[eE]([+-]?\d{1,3}))?$/;
const QUOTIENT = /^([+-]?\d{1,400})\/(\d{1,400})$/;

/** A fraction in lowest terms with a positive denominator. */
export class Fraction {
  /**
   * @param {bigint} numerator
   * @param {bigint} [denominator]
   */
  constructor(numerator, denominator = 1n) {
    if (denominator === 0n) throw new RangeError("a fraction has no denominator of 0");
    const divisor = greatestCommonDivisor(numerator, denominator) * (denominator < 0n ? -1n : 1n);
    /** @type {bigint} */
    this.numerator = numerator / divisor;
    /** @type {bigint} */
    this.denominator = denominator / divisor;
    Object.freeze(this);
  }

  /**
   * Negative, zero or positive as this is less than, equal to or greater than `other`.
   *
   * @param {Fraction} other
   * @returns {number}
   */
  compare(other) {
    const difference = this.numerator * other.denominator - other.numerator * this.denominator;
    return difference < 0n ? -1 : difference > 0n ? 1 : 0;
  }

  /**
   * @param {Fraction} other
   * @returns {Fraction}
   */
  plus(other) {
    return new Fraction(
      this.numerator * other.denominator + other.numerator * this.denominator,
      this.denominator * other.denominator,
    );
  }

  /**
   * @param {Fraction} other
   * @returns {Fraction}
   */
  minus(other) {
    return this.plus(new Fraction(-other.numerator, other.denominator));
  }

  /**
   * @param {Fraction} other
   * @returns {Fraction}
   */
  over(other) {
    return new Fraction(
      this.numerator * other.denominator,
      this.denominator * other.numerator,
    );
  }

  /** The largest whole number that is not above it. */
  floor() {
    const quotient = this.numerator / this.denominator;
    return this.numerator < quotient * this.denominator ? quotient - 1n : quotient;
  }

  /** The nearest float, ties to even: the float that Python's `float(Fraction)` gives. */
  toNumber() {
    const size = this.numerator < 0n ? -this.numerator : this.numerator;
    // At least 64 bits of the quotient; a last bit that says "and something more" breaks false ties.
    const shift = Math.max(0, 66 + bitLength(this.denominator) - bitLength(size));
    const scaled = size << BigInt(shift);
    const quotient = (scaled / this.denominator) | (scaled % this.denominator ? 1n : 0n);
    const number = Number(quotient) / 2 ** shift;
    return this.numerator < 0n ? -number : number;
  }

  /** "p/q", or "p" if it is whole: the spelling of messages. */
  toString() {
    return this.denominator === 1n
      ? `${this.numerator}`
      : `${this.numerator}/${this.denominator}`;
  }
}

/** @typedef {number | bigint | string | Fraction} Exact what may be written for an exact number */

/**
 * The fraction that `value` says in decimal or as p/q.
 *
 * @param {string} name the setting it is for
 * @param {unknown} value
 * @returns {Fraction}
 */
export function exact(name, value) {
  if (value instanceof Fraction) return value;
  if (typeof value === "bigint") return new Fraction(value);
  if (typeof value !== "number" && typeof value !== "string") {
    throw new SettingError(name, `must be a number, not ${value === null ? "null" : typeof value}`);
  }
  const text = String(value).trim();
  const decimal = DECIMAL.exec(text);
  if (decimal) {
    const [, sign, whole, part = "", exponent = "0"] = decimal;
    const digits = BigInt(`${whole}${part}`) * (sign === "-" ? -1n : 1n);
    const places = part.length - Number(exponent);
    return places > 0
      ? new Fraction(digits, 10n ** BigInt(places))
      : new Fraction(digits * 10n ** BigInt(-places));
  }
  const quotient = QUOTIENT.exec(text);
  if (quotient && BigInt(quotient[2]) !== 0n) {
    return new Fraction(BigInt(quotient[1]), BigInt(quotient[2]));
  }
  throw new SettingError(name, "must be a finite number");
}

/**
 * An exact number greater than zero.
 *
 * @param {string} name
 * @param {unknown} value
 * @returns {Fraction}
 */
export function positive(name, value) {
  const number = exact(name, value);
  if (number.numerator <= 0n) throw new SettingError(name, "must be greater than 0");
  return number;
}

/**
 * An exact number of at most zero.
 *
 * @param {string} name
 * @param {unknown} value
 * @returns {Fraction}
 */
export function notPositive(name, value) {
  const number = exact(name, value);
  if (number.numerator > 0n) throw new SettingError(name, "must be 0 or below");
  return number;
}

/**
 * How many binary digits a positive whole number has.
 *
 * @param {bigint} number
 * @returns {number}
 */
export function bitLength(number) {
  return number === 0n ? 0 : number.toString(2).length;
}

/**
 * @param {bigint} first
 * @param {bigint} second
 * @returns {bigint}
 */
function greatestCommonDivisor(first, second) {
  let [larger, smaller] = [first < 0n ? -first : first, second < 0n ? -second : second];
  while (smaller) [larger, smaller] = [smaller, larger % smaller];
  return larger;
}
