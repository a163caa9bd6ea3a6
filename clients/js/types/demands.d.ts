/** @import { Fraction } from "./fraction.js" */
/** @import { Announcement } from "./messages.js" */
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
import type { Announcement } from "./messages.js";
import type { Fraction } from "./fraction.js";
import { Lattice } from "./lattice.js";
