/** What goes over the wire: an announcement to the devices, a report from each. */

import { SettingError } from "./errors.js";
import { Fraction } from "./fraction.js";
import { WORDS } from "./loss.js";
import { questionFromPlain } from "./questions/index.js";
import { wholeField } from "./questions/question.js";
import { common, exactField, lowerField, nameField, naming, present, read, VERSION } from "./wire.js";

/** @import { Question } from "./questions/question.js" */

const ZERO = new Fraction(0n);

/** A question of a round, and what answering it costs. Public, and the same for many devices. */
export class Announcement {
  /**
   * @param {{ round: string, phase: string, epsilon: Fraction, bound: Fraction,
   *   resolution: Fraction, slot: number, question: Question, lower?: Fraction }} fields
   */
  constructor({ round, phase, epsilon, lower = ZERO, bound, resolution, slot, question }) {
    /**
     * An opaque name; a device answers a round once.
     *
     * @readonly
     */
    this.round = round;
    /**
     * "threshold": the answers choose θ; "stream": they are the stream.
     *
     * @readonly
     */
    this.phase = phase;
    /**
     * What an answer costs at most.
     *
     * @readonly
     */
    this.epsilon = epsilon;
    /**
     * Values are whole multiples of `resolution` from `lower`, at most 0, to `bound`.
     *
     * @readonly
     */
    this.lower = lower;
    /** @readonly */
    this.bound = bound;
    /** @readonly */
    this.resolution = resolution;
    /**
     * Which of the round's questions this is.
     *
     * @readonly
     */
    this.slot = slot;
    /**
     * What is asked.
     *
     * @readonly
     */
    this.question = question;
    Object.freeze(this);
  }

  /**
   * The announcement that JSON text says, or a `MessageError`.
   *
   * @param {unknown} message text, or the object that was read from it
   * @returns {Announcement}
   */
  static fromJson(message) {
    const plain = read(message, "announcement", 9, "lower");
    return naming(
      "announcement",
      () =>
        new Announcement({
          ...common(plain),
          lower: lowerField(plain, "lower"),
          bound: exactField(plain, "bound"),
          resolution: exactField(plain, "resolution"),
          question: questionField(present(plain, "question")),
        }),
    );
  }

  /**
   * What `JSON.stringify` writes: one spelling for one announcement.
   *
   * @returns {Record<string, unknown>}
   */
  toJSON() {
    return {
      tidegate: VERSION,
      kind: "announcement",
      round: this.round,
      phase: this.phase,
      epsilon: `${this.epsilon}`,
      ...(this.lower.numerator === 0n ? {} : { lower: `${this.lower}` }),
      bound: `${this.bound}`,
      resolution: `${this.resolution}`,
      slot: this.slot,
      question: this.question.toJSON(),
    };
  }
}

/** A device's answer. */
export class Report {
  /**
   * @param {{ round: string, phase: string, epsilon: Fraction, slot: number, client: string,
   *   report: number }} fields
   */
  constructor({ round, phase, epsilon, slot, client, report }) {
    /**
     * Round, phase, epsilon and slot are those of the announcement.
     *
     * @readonly
     */
    this.round = round;
    /** @readonly */
    this.phase = phase;
    /** @readonly */
    this.epsilon = epsilon;
    /** @readonly */
    this.slot = slot;
    /**
     * Who answers: one report is taken per client and round.
     *
     * @readonly
     */
    this.client = client;
    /**
     * The answer, a number from 0 to the question's `reports` − 1.
     *
     * @readonly
     */
    this.report = report;
    Object.freeze(this);
  }

  /**
   * The report that JSON text says, or a `MessageError`.
   *
   * @param {unknown} message text, or the object that was read from it
   * @returns {Report}
   */
  static fromJson(message) {
    const plain = read(message, "report", 8);
    return naming(
      "report",
      () =>
        new Report({
          ...common(plain),
          client: nameField(plain, "client"),
          report: wholeField(plain, "report", 0, WORDS - 1),
        }),
    );
  }

  /**
   * What `JSON.stringify` writes: so a report can be sent as it is.
   *
   * @returns {Record<string, unknown>}
   */
  toJSON() {
    return {
      tidegate: VERSION,
      kind: "report",
      round: this.round,
      phase: this.phase,
      epsilon: `${this.epsilon}`,
      slot: this.slot,
      client: this.client,
      report: this.report,
    };
  }
}

/**
 * @param {unknown} plain
 * @returns {Question}
 */
function questionField(plain) {
  const question = questionFromPlain(plain);
  const known = question.toJSON();
  if (!Object.keys(Object(plain)).every((name) => Object.hasOwn(known, name))) {
    throw new SettingError("question", "has fields that do not belong to it");
  }
  return question;
}
