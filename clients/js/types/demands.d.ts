/** @typedef {import("./fraction.js").Fraction} Fraction */
/** @typedef {import("./messages.js").Announcement} Announcement */
/**
 * Refuse what asks for more than `epsilon`, or for values beyond the lattice.
 *
 * The weights are checked in whole numbers against the ε that is announced, and that against the
 * device's own: who made the table need not be trusted.
 *
 * @param {Announcement} asked
 * @param {{ epsilon: Fraction, bound: Fraction, resolution: Fraction, top: number }} own
 */
export function checkAnnouncement(asked: Announcement, { epsilon, bound, resolution, top }: {
    epsilon: Fraction;
    bound: Fraction;
    resolution: Fraction;
    top: number;
}): void;
export type Fraction = import("./fraction.js").Fraction;
export type Announcement = import("./messages.js").Announcement;
