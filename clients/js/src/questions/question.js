/** What all questions have in common. */

import { SettingError } from "../errors.js";

/** @import { Fraction } from "../fraction.js" */
/** @import { Words } from "../words.js" */

/**
 * A device throws words away until one is below the total. A message with a total below this could
 * keep it busy for ever: refused.
 */
export const LEAST_TOTAL = 2 ** 24;
/** The largest level or output, in steps. */
export const LARGEST = 2 ** 53;
/** As Python writes it. */
export const LARGEST_TEXT = "9.0072e+15";

/**
 * A public question to one device.
 *
 * @typedef {object} Question
 * @property {string} form its name in messages
 * @property {number} reports how many different reports there are: 0, 1, …, reports − 1
 * @property {number} reach the largest number of steps it speaks of
 * @property {number} reachBelow the same below 0
 * @property {(epsilon: Fraction) => void} check refuses (`RefusedError`) unless one answer costs at
 *   most epsilon, by the weights
 * @property {(value: number, words: Words) => number} answer the report of a device whose value is
 *   that many steps
 * @property {() => Record<string, unknown>} toJSON its one spelling in messages
 */

/**
 * A uniform whole number below `total` ≤ 2**32: words that are not below it are thrown away.
 *
 * @param {number} total
 * @param {Words} words
 * @returns {number}
 */
export function drawn(total, words) {
  for (;;) {
    const word = words();
    if (word < total) return word;
  }
}

/**
 * `plain` if it is an object with fields.
 *
 * @param {string} name
 * @param {unknown} plain
 * @returns {Record<string, unknown>}
 */
export function objectField(name, plain) {
  if (typeof plain !== "object" || plain === null || Array.isArray(plain)) {
    throw new SettingError(name, "must be an object");
  }
  return /** @type {Record<string, unknown>} */ (plain);
}

/**
 * A field, if it is the object's own: a name such as "constructor" is no field of an empty object.
 *
 * @param {Record<string, unknown>} plain
 * @param {string} name
 * @returns {unknown}
 */
export function field(plain, name) {
  return Object.hasOwn(plain, name) ? plain[name] : undefined;
}

/**
 * A whole number of a message, within limits.
 *
 * @param {Record<string, unknown>} plain
 * @param {string} name
 * @param {number} least
 * @param {number} largest
 * @returns {number}
 */
export function wholeField(plain, name, least, largest) {
  const value = field(plain, name);
  if (!isWhole(value) || value < least || value > largest) {
    throw new SettingError(name, `must be a whole number from ${least} to ${largest}`);
  }
  return value;
}

/**
 * @param {unknown} value
 * @returns {value is number}
 */
export function isWhole(value) {
  return typeof value === "number" && Number.isInteger(value);
}

/**
 * A finite number of a message, within ±2**53.
 *
 * @param {unknown} value
 * @param {string} name
 * @returns {number}
 */
export function numberWithin(value, name) {
  if (typeof value !== "number") throw new SettingError(name, "must be a number");
  if (!(Math.abs(value) <= LARGEST)) {
    throw new SettingError(name, `must be from -${LARGEST_TEXT} to ${LARGEST_TEXT}`);
  }
  return value;
}
