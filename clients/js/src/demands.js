/** What a device allows to be asked: decided from the announcement alone, before it has a value. */

import { RefusedError, SettingError } from "./errors.js";
import { Lattice } from "./lattice.js";

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
export function checkAnnouncement(asked, { epsilon, lower, bound, resolution }) {
  if (asked.epsilon.compare(epsilon) > 0) {
    throw new RefusedError(
      `the round asks for epsilon = ${asked.epsilon}; this device gives at most ${epsilon} at a time`,
    );
  }
  if (resolution !== undefined && asked.resolution.compare(resolution) !== 0) {
    throw new RefusedError(
      `the round has resolution ${asked.resolution}, this device ${resolution}`,
    );
  }
  const lattice = latticeOf(bound, asked.resolution, lower);
  if (asked.bound.compare(bound) > 0 || asked.question.reach > lattice.top) {
    throw new RefusedError(`the round asks beyond the bound ${bound}`);
  }
  if (asked.lower.compare(lower) < 0 || asked.question.reachBelow > lattice.bottom) {
    throw new RefusedError(`the round asks below ${lower}, the least value of this device`);
  }
  asked.question.check(asked.epsilon);
  return lattice;
}

/**
 * @param {Fraction} bound
 * @param {Fraction} resolution
 * @param {Fraction} lower
 * @returns {Lattice}
 */
function latticeOf(bound, resolution, lower) {
  try {
    return new Lattice(bound, resolution, lower);
  } catch (error) {
    if (!(error instanceof SettingError)) throw error;
    throw new RefusedError(
      `the round has resolution ${resolution}, which does not suit the bound ${bound}`,
    );
  }
}
