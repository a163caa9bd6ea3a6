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
 * @param {Announcement[]} announcements
 * @returns {Announcement[]}
 */
export function ofOneRound(announcements: Announcement[]): Announcement[];
export type Announcement = import("./messages.js").Announcement;
