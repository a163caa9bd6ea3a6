/** @typedef {number | bigint | string | Fraction} Exact what may be written for an exact number */
/**
 * The fraction that `value` says in decimal or as p/q.
 *
 * @param {string} name the setting it is for
 * @param {unknown} value
 * @returns {Fraction}
 */
export function exact(name: string, value: unknown): Fraction;
/**
 * An exact number greater than zero.
 *
 * @param {string} name
 * @param {unknown} value
 * @returns {Fraction}
 */
export function positive(name: string, value: unknown): Fraction;
/**
 * An exact number of at most zero.
 *
 * @param {string} name
 * @param {unknown} value
 * @returns {Fraction}
 */
export function notPositive(name: string, value: unknown): Fraction;
/**
 * How many binary digits a positive whole number has.
 *
 * @param {bigint} number
 * @returns {number}
 */
export function bitLength(number: bigint): number;
/** A fraction in lowest terms with a positive denominator. */
export class Fraction {
    /**
     * @param {bigint} numerator
     * @param {bigint} [denominator]
     */
    constructor(numerator: bigint, denominator?: bigint);
    /** @type {bigint} */
    numerator: bigint;
    /** @type {bigint} */
    denominator: bigint;
    /**
     * Negative, zero or positive as this is less than, equal to or greater than `other`.
     *
     * @param {Fraction} other
     * @returns {number}
     */
    compare(other: Fraction): number;
    /**
     * @param {Fraction} other
     * @returns {Fraction}
     */
    plus(other: Fraction): Fraction;
    /**
     * @param {Fraction} other
     * @returns {Fraction}
     */
    minus(other: Fraction): Fraction;
    /**
     * @param {Fraction} other
     * @returns {Fraction}
     */
    over(other: Fraction): Fraction;
    /** The largest whole number that is not above it. */
    floor(): bigint;
    /** The nearest float, ties to even: the float that Python's `float(Fraction)` gives. */
    toNumber(): number;
    /** "p/q", or "p" if it is whole: the spelling of messages. */
    toString(): string;
}
/**
 * what may be written for an exact number
 */
export type Exact = number | bigint | string | Fraction;
