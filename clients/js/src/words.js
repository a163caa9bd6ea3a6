/**
 * Uniform words of 32 bits from Web Crypto: the only place where randomness is made.
 *
 * Words are fetched many at a time, since a call costs as much as hundreds of words, and each is
 * wiped as it is handed out: who later reads the memory finds no word that a report was drawn from.
 */

import { TidegateError } from "./errors.js";

/** @typedef {() => number} Words the next uniform word of 32 bits */
/** @typedef {{ getRandomValues: (words: Uint32Array<ArrayBuffer>) => unknown }} RandomSource */

// getRandomValues gives at most 65,536 bytes at a time.
const MOST_WORDS = 16_384;

/**
 * A source of words; each call of the result is the next one.
 *
 * @param {{ buffered?: number, crypto?: RandomSource }} [options] how many words
 *   are fetched at a time; whose `getRandomValues` (for tests)
 * @returns {Words}
 */
export function secureWords({ buffered = 1024, crypto = globalThis.crypto } = {}) {
  if (typeof crypto?.getRandomValues !== "function") {
    throw new TidegateError("no Web Crypto here: a browser or Node 20 or newer is needed");
  }
  const buffer = new Uint32Array(Math.min(Math.max(1, buffered), MOST_WORDS));
  let next = buffer.length;
  return () => {
    if (next === buffer.length) {
      crypto.getRandomValues(buffer);
      next = 0;
    }
    const word = buffer[next];
    buffer[next] = 0;
    next += 1;
    return word;
  };
}
