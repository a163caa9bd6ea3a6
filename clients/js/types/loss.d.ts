/**
 * The least weight that may share a column with `largest`: ⌈largest·e^(−ε)⌉, never below it.
 *
 * @param {number} largest a whole number of at most 2**53
 * @param {Fraction} epsilon
 * @returns {bigint}
 */
export function leastWeight(largest: number, epsilon: Fraction): bigint;
/**
 * Refuse weights whose [least, largest] in some column differ by more than e^ε.
 *
 * @param {Iterable<[number, number]>} columns whole numbers of at most 2**53
 * @param {Fraction} epsilon
 * @returns {void}
 */
export function checkLoss(columns: Iterable<[number, number]>, epsilon: Fraction): void;
/** @import { Fraction } from "./fraction.js" */
/** How many words of 32 bits there are: what `crypto.getRandomValues` draws from. */
export const WORDS: number;
import type { Fraction } from "./fraction.js";
