/**
 * The slot of a client in a round, of so many.
 *
 * @param {string} round
 * @param {string} client
 * @param {number} slots
 * @returns {Promise<number>}
 */
export function slotOf(round: string, client: string, slots: number): Promise<number>;
/**
 * All announcements of one round by their slots, or a `MessageError`.
 *
 * They are read one by one: a server that sends many is refused after a few.
 *
 * @param {Iterable<unknown>} announcements each as text, or the object read from it
 * @returns {Announcement[]}
 */
export function ofOneRound(announcements: Iterable<unknown>): Announcement[];
import { Announcement } from "./messages.js";
