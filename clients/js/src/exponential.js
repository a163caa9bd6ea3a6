/**
 * Integer bounds of 2**bits·exp(−n/d), the only place where an exponential decides anything.
 *
 * The proof stands beside the same function of Python, `tidegate.noise.exponential_bounds`.
 */

import { bitLength } from "./fraction.js";

const REDUCED_BITS = 6;
const FIRST_GUARD_BITS = 32;

/**
 * The whole numbers next to E = 2**bits·exp(−numerator/denominator): its floor and its ceiling.
 *
 * @param {bigint} numerator not negative
 * @param {bigint} denominator positive
 * @param {number} bits
 * @returns {[bigint, bigint]}
 */
export function exponentialBounds(numerator, denominator, bits) {
  if (numerator === 0n) return [1n << BigInt(bits), 1n << BigInt(bits)];
  if (numerator >= BigInt(bits) * denominator) return [0n, 1n];
  const size = bitLength(numerator) - bitLength(denominator) + 1;
  const halvings = Math.max(0, size + REDUCED_BITS);
  // Each squaring doubles the relative error: `halvings` of the guard bits are lost to that.
  for (let guard = halvings + FIRST_GUARD_BITS; ; guard *= 2) {
    const [low, high] = enclosure(numerator, denominator, halvings, bits + guard);
    const [lower, upper] = [low >> BigInt(guard), ceilingShift(high, guard)];
    if (upper - lower === 1n) return [lower, upper];
  }
}

/**
 * Whole numbers low ≤ 2**precision·exp(−x) ≤ high: an alternating series, then squarings.
 *
 * @param {bigint} numerator
 * @param {bigint} denominator
 * @param {number} halvings
 * @param {number} precision
 * @returns {[bigint, bigint]}
 */
function enclosure(numerator, denominator, halvings, precision) {
  const divisor = denominator << BigInt(halvings);
  let [total, term, index] = [0n, 1n << BigInt(precision), 0n];
  while (term) {
    total += index & 1n ? -term : term;
    index += 1n;
    term = (term * numerator) / (divisor * index);
  }
  const slack = 2n * index + 2n;
  let [low, high] = [total - slack, total + slack];
  for (let squaring = 0; squaring < halvings; squaring += 1) {
    [low, high] = [(low * low) >> BigInt(precision), ceilingShift(high * high, precision)];
  }
  return [low, high];
}

/**
 * ⌈number/2**places⌉
 *
 * @param {bigint} number
 * @param {number} places
 */
export function ceilingShift(number, places) {
  return -(-number >> BigInt(places));
}
