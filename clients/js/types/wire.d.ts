/**
 * The fields that announcements and reports share.
 *
 * @typedef {object} Common
 * @property {string} round
 * @property {string} phase
 * @property {Fraction} epsilon
 * @property {number} slot
 */
/**
 * An object of this kind and version with so many fields; the readers below name them all.
 *
 * @param {unknown} message JSON text, or what was read from it
 * @param {string} kind
 * @param {number} fields
 * @param {string} [optional] one more that may be there
 * @returns {Record<string, unknown>}
 */
export function read(message: unknown, kind: string, fields: number, optional?: string): Record<string, unknown>;
/**
 * What `make` gives; errors about a field say which message it is in.
 *
 * @template Made
 * @param {string} kind
 * @param {() => Made} make
 * @returns {Made}
 */
export function naming<Made>(kind: string, make: () => Made): Made;
/**
 * @param {Record<string, unknown>} plain
 * @returns {Common}
 */
export function common(plain: Record<string, unknown>): Common;
/**
 * @param {Record<string, unknown>} plain
 * @param {string} name
 * @returns {unknown}
 */
export function present(plain: Record<string, unknown>, name: string): unknown;
/**
 * @param {Record<string, unknown>} plain
 * @param {string} name
 * @returns {string}
 */
export function nameField(plain: Record<string, unknown>, name: string): string;
/**
 * A fraction greater than 0 in its one spelling; short, so that a sum of many stays small.
 *
 * @param {Record<string, unknown>} plain
 * @param {string} name
 * @returns {Fraction}
 */
export function exactField(plain: Record<string, unknown>, name: string): Fraction;
/**
 * A fraction below 0 in its one spelling; 0 if the field is not there.
 *
 * @param {Record<string, unknown>} plain
 * @param {string} name
 * @returns {Fraction}
 */
export function lowerField(plain: Record<string, unknown>, name: string): Fraction;
/** The version of the messages. */
export const VERSION: 1;
/** What answers are for: choosing the threshold, or the stream itself. */
export const PHASES: readonly string[];
/**
 * The fields that announcements and reports share.
 */
export type Common = {
    round: string;
    phase: string;
    epsilon: Fraction;
    slot: number;
};
import { Fraction } from "./fraction.js";
