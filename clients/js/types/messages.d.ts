/** A question of a round, and what answering it costs. Public, and the same for many devices. */
export class Announcement {
    /**
     * The announcement that JSON text says, or a `MessageError`.
     *
     * @param {unknown} message text, or the object that was read from it
     * @returns {Announcement}
     */
    static fromJson(message: unknown): Announcement;
    /**
     * @param {{ round: string, phase: string, epsilon: Fraction, bound: Fraction,
     *   resolution: Fraction, slot: number, question: Question, lower?: Fraction }} fields
     */
    constructor({ round, phase, epsilon, lower, bound, resolution, slot, question }: {
        round: string;
        phase: string;
        epsilon: Fraction;
        bound: Fraction;
        resolution: Fraction;
        slot: number;
        question: Question;
        lower?: Fraction;
    });
    /**
     * An opaque name; a device answers a round once.
     *
     * @readonly
     */
    readonly round: string;
    /**
     * "threshold": the answers choose θ; "stream": they are the stream.
     *
     * @readonly
     */
    readonly phase: string;
    /**
     * What an answer costs at most.
     *
     * @readonly
     */
    readonly epsilon: Fraction;
    /**
     * Values are whole multiples of `resolution` from `lower`, at most 0, to `bound`.
     *
     * @readonly
     */
    readonly lower: Fraction;
    /** @readonly */
    readonly bound: Fraction;
    /** @readonly */
    readonly resolution: Fraction;
    /**
     * Which of the round's questions this is.
     *
     * @readonly
     */
    readonly slot: number;
    /**
     * What is asked.
     *
     * @readonly
     */
    readonly question: Question;
    /**
     * What `JSON.stringify` writes: one spelling for one announcement.
     *
     * @returns {Record<string, unknown>}
     */
    toJSON(): Record<string, unknown>;
}
/** A device's answer. */
export class Report {
    /**
     * The report that JSON text says, or a `MessageError`.
     *
     * @param {unknown} message text, or the object that was read from it
     * @returns {Report}
     */
    static fromJson(message: unknown): Report;
    /**
     * @param {{ round: string, phase: string, epsilon: Fraction, slot: number, client: string,
     *   report: number }} fields
     */
    constructor({ round, phase, epsilon, slot, client, report }: {
        round: string;
        phase: string;
        epsilon: Fraction;
        slot: number;
        client: string;
        report: number;
    });
    /**
     * Round, phase, epsilon and slot are those of the announcement.
     *
     * @readonly
     */
    readonly round: string;
    /** @readonly */
    readonly phase: string;
    /** @readonly */
    readonly epsilon: Fraction;
    /** @readonly */
    readonly slot: number;
    /**
     * Who answers: one report is taken per client and round.
     *
     * @readonly
     */
    readonly client: string;
    /**
     * The answer, a number from 0 to the question's `reports` − 1.
     *
     * @readonly
     */
    readonly report: number;
    /**
     * What `JSON.stringify` writes: so a report can be sent as it is.
     *
     * @returns {Record<string, unknown>}
     */
    toJSON(): Record<string, unknown>;
}
import { Fraction } from "./fraction.js";
import type { Question } from "./questions/question.js";
