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
export function drawn(total: number, words: Words): number;
/**
 * `plain` if it is an object with fields.
 *
 * @param {string} name
 * @param {unknown} plain
 * @returns {Record<string, unknown>}
 */
export function objectField(name: string, plain: unknown): Record<string, unknown>;
/**
 * A field, if it is the object's own: a name such as "constructor" is no field of an empty object.
 *
 * @param {Record<string, unknown>} plain
 * @param {string} name
 * @returns {unknown}
 */
export function field(plain: Record<string, unknown>, name: string): unknown;
/**
 * A whole number of a message, within limits.
 *
 * @param {Record<string, unknown>} plain
 * @param {string} name
 * @param {number} least
 * @param {number} largest
 * @returns {number}
 */
export function wholeField(plain: Record<string, unknown>, name: string, least: number, largest: number): number;
/**
 * @param {unknown} value
 * @returns {value is number}
 */
export function isWhole(value: unknown): value is number;
/**
 * A finite number of a message, within ±2**53.
 *
 * @param {unknown} value
 * @param {string} name
 * @returns {number}
 */
export function numberWithin(value: unknown, name: string): number;
/** @import { Fraction } from "../fraction.js" */
/** @import { Words } from "../words.js" */
/**
 * A device throws words away until one is below the total. A message with a total below this could
 * keep it busy for ever: refused.
 */
export const LEAST_TOTAL: number;
/** The largest level or output, in steps. */
export const LARGEST: number;
/** As Python writes it. */
export const LARGEST_TEXT: "9.0072e+15";
/**
 * A public question to one device.
 */
export type Question = {
    /**
     * its name in messages
     */
    form: string;
    /**
     * how many different reports there are: 0, 1, …, reports − 1
     */
    reports: number;
    /**
     * the largest number of steps it speaks of
     */
    reach: number;
    /**
     * the same below 0
     */
    reachBelow: number;
    /**
     * refuses (`RefusedError`) unless one answer costs at
     * most epsilon, by the weights
     */
    check: (epsilon: Fraction) => void;
    /**
     * the report of a device whose value is
     * that many steps
     */
    answer: (value: number, words: Words) => number;
    /**
     * its one spelling in messages
     */
    toJSON: () => Record<string, unknown>;
};
import type { Words } from "../words.js";
import type { Fraction } from "../fraction.js";
