/** What a device allows to be asked: decided from the announcement alone, before it has a value. */

import { RefusedError } from "./errors.js";

/** @typedef {import("./fraction.js").Fraction} Fraction */
/** @typedef {import("./messages.js").Announcement} Announcement */
/** @typedef {import("./questions/question.js").Question} Question */

// A word below the total is drawn by trial: a smaller one could take for ever.
const COARSEST = 2 ** 24;

/**
 * Refuse what asks for more than `epsilon`, for values beyond the lattice, or cannot be drawn.
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
  checkDrawable(asked.question);
  asked.question.check(asked.epsilon);
}

/**
 * A table that fails for some values only would make their devices fall silent: a leak.
 *
 * @param {Question} question
 */
function checkDrawable({ total, means = [] }) {
  if (total < COARSEST) {
    throw new RefusedError(`the weights of a question must add up to at least ${COARSEST}`);
  }
  if (!means.every(Number.isFinite)) {
    throw new RefusedError("the outputs of the question are too large");
  }
}
