/**
 * Which question of a round a client is asked, where that goes by its name.
 *
 * A public hash of round and name, which the server computes too: a client cannot pick its question
 * without picking another name. It depends on no value.
 */

import { MessageError } from "./errors.js";
import { Announcement } from "./messages.js";

const MOST_SLOTS = 256; // the rounds of Tidegate have 60 at most
const BYTES = 6; // of the digest: as large a number as is exact

/**
 * The slot of a client in a round, of so many.
 *
 * @param {string} round
 * @param {string} client
 * @param {number} slots
 * @returns {Promise<number>}
 */
export async function slotOf(round, client, slots) {
  const named = new TextEncoder().encode(`tidegate/1/slot/${round}/${client}`);
  const digest = new Uint8Array(await crypto.subtle.digest("SHA-256", named));
  return digest.subarray(0, BYTES).reduce((number, byte) => 256 * number + byte, 0) % slots;
}

/**
 * All announcements of one round by their slots, or a `MessageError`.
 *
 * They are read one by one: a server that sends many is refused after a few.
 *
 * @param {Iterable<unknown>} announcements each as text, or the object read from it
 * @returns {Announcement[]}
 */
export function ofOneRound(announcements) {
  /** @type {Announcement[]} */
  const ordered = [];
  for (const one of announcements) {
    if (ordered.length === MOST_SLOTS) {
      throw new MessageError(`announcements: a round has at most ${MOST_SLOTS} of them`);
    }
    ordered.push(Announcement.fromJson(one));
  }
  ordered.sort((one, other) => one.slot - other.slot);
  const complete = ordered.every(
    ({ slot, round }, index) => slot === index && round === ordered[0].round,
  );
  if (ordered.length === 0 || !complete) {
    throw new MessageError("announcements: must be all those of one round, each once");
  }
  return ordered;
}
