/** @typedef {import("./fraction.js").Fraction} Fraction */
/** @typedef {import("./messages.js").Announcement} Announcement */
/**
 * Refuse what asks for more than `epsilon`, or about values beyond the bounds.
 *
 * The weights are checked in whole numbers against the ε that is announced, and that against the
 * device's own: who made the table need not be trusted. A device without a resolution takes that of
 * the round.
 *
 * @param {Announcement} asked
 * @param {{ epsilon: Fraction, lower: Fraction, bound: Fraction, resolution: Fraction | undefined }} own
 * @returns {Lattice} of the round
 */
export function checkAnnouncement(asked: Announcement, { epsilon, lower, bound, resolution }: {
    epsilon: Fraction;
    lower: Fraction;
    bound: Fraction;
    resolution: Fraction | undefined;
}): Lattice;
export type Fraction = import("./fraction.js").Fraction;
export type Announcement = import("./messages.js").Announcement;
import { Lattice } from "./lattice.js";
