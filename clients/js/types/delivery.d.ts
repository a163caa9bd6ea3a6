/**
 * Answer the open round of a task, and send all that waits for it.
 *
 * @param {Client} client
 * @param {Task} task
 * @param {number | bigint} value
 * @param {string} event
 * @returns {Promise<Delivered>}
 */
export function reportTo(client: Client, task: Task, value: number | bigint, event: string): Promise<Delivered>;
/**
 * Send the reports of a task of which nobody has said that they arrived.
 *
 * @param {Client} client
 * @param {Task} task
 * @returns {Promise<Delivered[]>}
 */
export function deliverTo(client: Client, task: Task): Promise<Delivered[]>;
/**
 * Try again while the service cannot be reached or is busy, ever more rarely.
 *
 * @param {() => Promise<Answer>} once
 * @param {number} patience in seconds
 * @returns {Promise<Answer>}
 */
export function patiently(once: () => Promise<Answer>, patience: number): Promise<Answer>;
/** A task of a service, as its devices see it. */
export class Task {
    /**
     * @param {string} url of the task: `https://host/v1/tasks/ID`, or the path of it on the same site
     * @param {DeliveryOptions} options
     */
    constructor(url: string, { token, patience }: DeliveryOptions);
    /** The id of the task: the names of its rounds begin with it. */
    id: string;
    /**
     * The name of the round that is open.
     *
     * @returns {Promise<string>}
     */
    openRound(): Promise<string>;
    /**
     * What a device of this name is asked; undefined: the round has just closed.
     *
     * @param {string} round
     * @param {string} client
     * @returns {Promise<string | undefined>}
     */
    announcement(round: string, client: string): Promise<string | undefined>;
    /**
     * What became of each.
     *
     * @param {Report[]} reports
     * @returns {Promise<string[]>}
     */
    send(reports: Report[]): Promise<string[]>;
    #private;
}
/**
 * What became of a report.
 */
export type Delivered = {
    /**
     * of the report
     */
    round: string;
    /**
     * "accepted", "duplicate" (it was taken before), "late", the reason why it was
     * rejected, or "queued": it is kept on the device, and sent again when the network is back
     */
    outcome: string;
};
export type DeliveryOptions = {
    /**
     * of a device
     */
    token?: string | undefined;
    /**
     * for how many seconds a call tries again; 10, unless you say so
     */
    patience?: number | undefined;
};
export type Answer = {
    status: number;
    body: string;
    retryAfter: number;
};
import type { Client } from "./client.js";
import type { Report } from "./messages.js";
