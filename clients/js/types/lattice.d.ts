/**
 * The multiples of `resolution` from `lower` to `bound`, counted −`bottom`, …, 0, …, `top`. A bound
 * that is none is rounded outwards.
 */
export class Lattice {
    /**
     * @param {Fraction} bound
     * @param {Fraction} resolution
     * @param {Fraction} [lower] at most 0
     */
    constructor(bound: Fraction, resolution: Fraction, lower?: Fraction);
    /** How many steps the bound is. */
    top: number;
    /** How many steps below 0 the lower bound is. */
    bottom: number;
    /**
     * `value` in steps.
     *
     * @param {unknown} value
     * @returns {number}
     */
    unit(value: unknown): number;
    #private;
}
import { Fraction } from "./fraction.js";
