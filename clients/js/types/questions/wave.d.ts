/**
 * The value's bin, reported as one of bins + 2·half cells.
 *
 * A value of v steps of 0…top lies in bin ⌊v·bins/(top+1)⌋. Its cell i + half is the middle of a
 * window of 2·half + 1 cells of weight `high`; every other cell has weight `low`. All rows have the
 * same total, so the ratio of probabilities is high/low: ε-private as high ≤ e^ε·low.
 */
export class WaveQuestion {
    /**
     * From a message.
     *
     * @param {Record<string, unknown>} plain
     * @returns {WaveQuestion}
     */
    static fromPlain(plain: Record<string, unknown>): WaveQuestion;
    /** @param {{ top: number, bins: number, half: number, high: number, low: number }} fields */
    constructor({ top, bins, half, high, low }: {
        top: number;
        bins: number;
        half: number;
        high: number;
        low: number;
    });
    form: string;
    top: number;
    bins: number;
    half: number;
    high: number;
    low: number;
    reports: number;
    /** The sum of a row's weights. */
    total: number;
    /** The largest number of steps it speaks of. */
    get reach(): number;
    /** It speaks of no value below 0. */
    get reachBelow(): number;
    /**
     * Refuse unless high ≤ e^ε·low.
     *
     * @param {Fraction} epsilon
     * @returns {void}
     */
    check(epsilon: Fraction): void;
    /**
     * One word below the total picks the cell.
     *
     * (Products stay within 2**53, and rounding a quotient of such whole numbers never lifts it to the
     * next whole one, so the floors are exact.)
     *
     * @param {number} value
     * @param {Words} words
     * @returns {number}
     */
    answer(value: number, words: Words): number;
    /**
     * For a message.
     *
     * @returns {Record<string, unknown>}
     */
    toJSON(): Record<string, unknown>;
}
import type { Fraction } from "../fraction.js";
import type { Words } from "../words.js";
