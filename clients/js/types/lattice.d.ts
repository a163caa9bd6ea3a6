/**
 * The multiples of `resolution` from 0 to `bound`, counted 0, 1, …, `top`. A bound that is none is
 * rounded up.
 */
export class Lattice {
    /**
     * @param {Fraction} bound
     * @param {Fraction} resolution
     */
    constructor(bound: Fraction, resolution: Fraction);
    /** How many steps the bound is. */
    top: number;
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
