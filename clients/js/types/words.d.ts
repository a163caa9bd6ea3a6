/**
 * A source of words; each call of the result is the next one.
 *
 * @param {{ buffered?: number, crypto?: RandomSource }} [options] how many words
 *   are fetched at a time; whose `getRandomValues` (for tests)
 * @returns {Words}
 */
export function secureWords({ buffered, crypto }?: {
    buffered?: number;
    crypto?: RandomSource;
}): Words;
/**
 * the next uniform word of 32 bits
 */
export type Words = () => number;
export type RandomSource = {
    getRandomValues: (words: Uint32Array<ArrayBuffer>) => unknown;
};
