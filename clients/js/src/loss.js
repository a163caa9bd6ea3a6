/**
 * The privacy loss of whole-number weights, decided in whole numbers.
 *
 * A report drawn with probability weight/total from a row that the value chooses is ε-locally private
 * if no report is more than e^ε times likelier under one row than under another: in every column the
 * least weight is at least e^(−ε) times the largest. The device checks this itself: it need not
 * trust whoever made the table.
 */

import { RefusedError } from "./errors.js";
import { ceilingShift, exponentialBounds } from "./exponential.js";

/** @import { Fraction } from "./fraction.js" */

/** How many words of 32 bits there are: what `crypto.getRandomValues` draws from. */
export const WORDS = 2 ** 32;
const BITS = 64;

/**
 * The least weight that may share a column with `largest`: ⌈largest·e^(−ε)⌉, never below it.
 *
 * @param {number} largest a whole number of at most 2**53
 * @param {Fraction} epsilon
 * @returns {bigint}
 */
export function leastWeight(largest, epsilon) {
  return leastBeside(largest, factorAbove(epsilon));
}

/**
 * Refuse weights whose [least, largest] in some column differ by more than e^ε.
 *
 * @param {Iterable<[number, number]>} columns whole numbers of at most 2**53
 * @param {Fraction} epsilon
 * @returns {void}
 */
export function checkLoss(columns, epsilon) {
  const above = factorAbove(epsilon);
  for (const [least, largest] of columns) {
    if (BigInt(least) < leastBeside(largest, above)) {
      throw new RefusedError(
        `the reports asked for would cost more than epsilon = ${epsilon.toNumber()}`,
      );
    }
  }
}

/**
 * 2**64·e^(−ε), rounded up.
 *
 * @param {Fraction} epsilon
 */
function factorAbove(epsilon) {
  return exponentialBounds(epsilon.numerator, epsilon.denominator, BITS)[1];
}

/**
 * @param {number} largest
 * @param {bigint} above
 */
function leastBeside(largest, above) {
  return ceilingShift(BigInt(largest) * above, BITS);
}
