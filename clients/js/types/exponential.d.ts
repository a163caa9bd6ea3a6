/**
 * The whole numbers next to E = 2**bits·exp(−numerator/denominator): its floor and its ceiling.
 *
 * @param {bigint} numerator not negative
 * @param {bigint} denominator positive
 * @param {number} bits
 * @returns {[bigint, bigint]}
 */
export function exponentialBounds(numerator: bigint, denominator: bigint, bits: number): [bigint, bigint];
/**
 * ⌈number/2**places⌉
 *
 * @param {bigint} number
 * @param {number} places
 */
export function ceilingShift(number: bigint, places: number): bigint;
