/** What a device allows to be asked: decided from the announcement alone, before it has a value. */

import { RefusedError } from "./errors.js";

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
export function checkAnnouncement(asked, { epsilon, bound, resolution, top }) {
  if (asked.epsilon.compare(epsilon) > 0) {
    throw new RefusedError(
      `the round asks for epsilon = ${asked.epsilon}; this device gives at most ${epsilon} at a time`,
    );
  }
  if (asked.resolution.compare(resolution) !== 0) {
    throw new RefusedError(
      `the round has resolution ${asked.resolution}, this device ${resolution}`,
    );
  }
  if (asked.bound.compare(bound) > 0 || asked.question.reach > top) {
    throw new RefusedError(`the round asks beyond the bound ${bound}`);
  }
  asked.question.check(asked.epsilon);
}
