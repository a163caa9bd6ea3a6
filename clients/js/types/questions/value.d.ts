/**
 * Your value, cut at `threshold` and at `lowest`, as a report of a table.
 *
 * The value is cut and mapped to x in [−1, 1], `lowest` to −1 and `threshold` to 1. Row i of the table stands for the mean of its reports,
 * Σ weight·output/total. x lies between two such means; a coin takes one of the two rows such that
 * the mean is x, and a second word draws a report from it.
 *
 * What is released: the number of a column. Every row gives it with probability weight/total; the coin
 * only mixes rows. So it is ε-private as largest ≤ e^ε·least in every column, which `check` decides in
 * whole numbers. Which rows are mixed is decided in floats: accuracy, not privacy.
 */
export class ValueQuestion {
    /**
     * From a message.
     *
     * @param {Record<string, unknown>} plain
     * @returns {ValueQuestion}
     */
    static fromPlain(plain: Record<string, unknown>): ValueQuestion;
    /**
     * @param {{ threshold: number, weights: number[][], outputs: number[], lowest?: number }} fields
     *   smaller values than `lowest` (at most 0) count as this
     */
    constructor({ threshold, weights, outputs, lowest }: {
        threshold: number;
        weights: number[][];
        outputs: number[];
        lowest?: number;
    });
    form: string;
    threshold: number;
    lowest: number;
    weights: number[][];
    outputs: number[];
    reports: number;
    /** The sum of a row's weights. */
    total: number;
    means: number[];
    /** The largest number of steps it speaks of. */
    get reach(): number;
    /** The largest number of steps below 0 it speaks of. */
    get reachBelow(): number;
    /**
     * Refuse unless largest ≤ e^ε·least in every column.
     *
     * @param {Fraction} epsilon
     * @returns {void}
     */
    check(epsilon: Fraction): void;
    /**
     * A coin takes the row, a word below the total takes the column.
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
    #private;
}
import type { Fraction } from "../fraction.js";
import type { Words } from "../words.js";
