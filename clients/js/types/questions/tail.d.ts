export const ABOVE: string;
export const BELOW: string;
/**
 * Is value + dither·(U − ½) above `level`? Answered by randomized response. `below` asks about the
 * other side of 0: −value in the place of the value.
 *
 * What is released: one bit. P(1) is truth/2**32 or lie/2**32, whatever U was: ε-private as
 * truth ≤ e^ε·lie, which `check` decides in whole numbers.
 */
export class TailQuestion {
    /**
     * From a message.
     *
     * @param {Record<string, unknown>} plain
     * @returns {TailQuestion}
     */
    static fromPlain(plain: Record<string, unknown>): TailQuestion;
    /**
     * @param {{ level: number, dither: number, lie: number, below?: boolean }} fields in steps; the
     *   weight of a lie; whether −value is asked about
     */
    constructor({ level, dither, lie, below }: {
        level: number;
        dither: number;
        lie: number;
        below?: boolean;
    });
    reports: number;
    form: string;
    below: boolean;
    level: number;
    dither: number;
    lie: number;
    /** The largest number of steps it speaks of. */
    get reach(): number;
    /** The largest number of steps below 0 it speaks of. */
    get reachBelow(): number;
    /**
     * Refuse unless truth ≤ e^ε·lie.
     *
     * @param {Fraction} epsilon
     * @returns {void}
     */
    check(epsilon: Fraction): void;
    /**
     * The dither, then the coin.
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
