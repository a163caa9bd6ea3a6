/** One device. `await Client.open({ epsilon: 1, bound: 100, storage })`. */
export class Client {
    /**
     * A client whose storage has been read: one that cannot be used is noticed here.
     *
     * @param {ClientOptions} options
     * @returns {Promise<Client>}
     */
    static open(options: ClientOptions): Promise<Client>;
    /** @param {ClientOptions} options */
    constructor(options: ClientOptions);
    /**
     * Answer the open round of a service's task, and send what waits for it.
     *
     * @param {string} url of the task: `https://host/v1/tasks/ID`
     * @param {number | bigint} value a number within the bounds
     * @param {{ event?: string } & DeliveryOptions} [options] `event`: as for `answer`; `token`: of a
     *   device; `patience`: for how many seconds to try again. A report that was drawn and did not arrive is
     *   "queued": it is sent when the network is back, or by the next call, the same one
     * @returns {Promise<Delivered>}
     * @throws {UnreachableError} the service is away; nothing was drawn
     * @throws {NotAskedError} nobody else is asked at the moment; nothing was drawn
     */
    report(url: string, value: number | bigint, options?: {
        event?: string;
    } & DeliveryOptions): Promise<Delivered>;
    /**
     * Send the reports of a task of which nobody has said that they arrived.
     *
     * @param {string} url of the task
     * @param {DeliveryOptions} [options]
     * @returns {Promise<Delivered[]>}
     */
    deliver(url: string, options?: DeliveryOptions): Promise<Delivered[]>;
    /**
     * The report to send. It is remembered, in the storage, before this resolves.
     *
     * @param {unknown} announcement what the server asks: text as it came, or the object read from it
     * @param {number | bigint} value a number within the bounds
     * @param {{ event?: string, round?: string }} [options] `event`: what the value is called, such as a
     *   date. A value answers one round: the same event in another round is refused. Without a name, the
     *   device has one value. `round`: refuse an announcement of any other
     * @returns {Promise<Report>}
     * @throws {MessageError} the announcement is malformed or of another version
     * @throws {RefusedError} it asks for too much, or the round, the event or the lifetime is used up
     * @throws {InputError} the value is no number, or outside the bounds
     */
    answer(announcement: unknown, value: number | bigint, options?: {
        event?: string;
        round?: string;
    }): Promise<Report>;
    /**
     * Of all announcements of a round the one to answer, where that goes by name.
     *
     * @param {Iterable<unknown>} announcements each as text, or the object read from it
     * @returns {Promise<Announcement>}
     * @throws {MessageError} one is malformed, or they are not all those of one round
     */
    pick(announcements: Iterable<unknown>): Promise<Announcement>;
    /**
     * What this device is called in the reports of a round.
     *
     * @param {string} round
     * @returns {Promise<string>}
     */
    nameIn(round: string): Promise<string>;
    /**
     * What was reported in a round, to send it again; undefined: nothing.
     *
     * @param {string} round
     * @returns {Promise<Report | undefined>}
     */
    sent(round: string): Promise<Report | undefined>;
    /**
     * The reports of which nobody has said that they arrived, to send them again: after a page was
     * reloaded, or without a network. The same reports: sending one twice costs and tells nothing more.
     *
     * @returns {Promise<Report[]>}
     */
    unacknowledged(): Promise<Report[]>;
    /**
     * Remember that the report of a round arrived, or never will: the server has taken it, had it
     * already, or has closed the round.
     *
     * @param {string} round
     * @returns {Promise<void>}
     */
    acknowledge(round: string): Promise<void>;
    /**
     * Every report so far: when, in which round, at what cost.
     *
     * @returns {Promise<Pin[]>}
     */
    ledger(): Promise<Pin[]>;
    /**
     * How much of `lifetime` was not spent.
     *
     * @returns {Promise<Fraction>}
     */
    left(): Promise<Fraction>;
    #private;
}
export type ClientOptions = {
    /**
     * the most that one report may cost
     */
    epsilon: Exact;
    /**
     * the largest value there is
     */
    bound: Exact;
    /**
     * the least value there is: 0, the default, or below it
     */
    lower?: Exact | undefined;
    /**
     * the step between values; by default that of the round
     */
    resolution?: Exact | undefined;
    /**
     * the most that all reports of this device may cost together; by default
     * as much as one report
     */
    lifetime?: Exact | undefined;
    /**
     * where reports are remembered
     */
    storage: Storage;
    /**
     * a fixed name for reports. By default a new one for every round, made from
     * a key that never leaves the device: a round takes one report from it, and rounds cannot be linked
     */
    name?: string | undefined;
    /**
     * take values beyond the bounds for the bounds; otherwise they are an error
     */
    clamp?: boolean | undefined;
    /**
     * words that are not random, only to simulate and with `VolatileStorage`
     */
    words?: Words | undefined;
};
import type { DeliveryOptions } from "./delivery.js";
import type { Delivered } from "./delivery.js";
import { Report } from "./messages.js";
import { Announcement } from "./messages.js";
import type { Pin } from "./memory.js";
import type { Fraction } from "./fraction.js";
import type { Exact } from "./fraction.js";
import type { Storage } from "./storage/storage.js";
import type { Words } from "./words.js";
