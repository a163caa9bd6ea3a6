/**
 * @param {ArrayBuffer | Uint8Array} bytes
 * @returns {string}
 */
export function hexadecimal(bytes: ArrayBuffer | Uint8Array): string;
/** The reports of one device. */
export class Memory {
    /** @param {Storage} storage */
    constructor(storage: Storage);
    /** The sum of what all reports cost. */
    get spent(): Fraction;
    /** The local ledger, in the order of reporting. */
    get pins(): Pin[];
    /** The reports of which nobody has said that they arrived, in the order of reporting. */
    get unacknowledged(): Pin[];
    /**
     * What was reported in a round.
     *
     * @param {string} round
     */
    pin(round: string): Pin | undefined;
    /**
     * Whether a value of this (digested) name was reported on.
     *
     * @param {string} event
     */
    knows(event: string): boolean;
    /** Refuse if nothing more can be remembered: then nothing more may be reported. */
    check(): void;
    /** Take in what other tabs or processes added; begin the records if there are none. */
    refresh(): Promise<void>;
    /**
     * Remember a report. True: it may be sent. False: another record came first, decide again.
     *
     * @param {Pin} pin
     * @returns {Promise<boolean>}
     */
    add(pin: Pin): Promise<boolean>;
    /**
     * Remember that a report arrived. False: another record came first, decide again.
     *
     * @param {string} round
     * @returns {Promise<boolean>}
     */
    acknowledge(round: string): Promise<boolean>;
    /**
     * A name that only this device can make: a keyed digest in hexadecimal.
     *
     * @param {string} purpose
     * @param {string} text
     * @returns {Promise<string>}
     */
    keyed(purpose: string, text: string): Promise<string>;
    #private;
}
/**
 * A line of the local ledger: what was reported in a round, and what it cost.
 */
export type Pin = {
    /**
     * of the announcement that was answered, as are phase, slot and epsilon
     */
    round: string;
    phase: string;
    slot: number;
    epsilon: Fraction;
    /**
     * of all of that announcement
     */
    digest: string;
    /**
     * a keyed digest of what the value was called
     */
    event: string;
    /**
     * what was sent, as is report
     */
    client: string;
    report: number;
    /**
     * when, by the device's clock (UTC)
     */
    time: string;
};
import { Fraction } from "./fraction.js";
import type { Storage } from "./storage/storage.js";
