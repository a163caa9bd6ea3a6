/**
 * Where a device keeps what it reported: a list of records that only grows.
 *
 *     drawn → append(position, record), durable ║ sent
 *
 * Two tabs or processes may share a storage. Each adds a record at the position it believes to be
 * next; the storage lets one of them in, and the other reads on and decides again. So two of them
 * never draw two reports for one round, and need no lock that a crash could leave behind.
 */

import { RefusedError } from "../errors.js";

/**
 * @typedef {object} Storage
 * @property {(start: number) => Promise<string[]>} read the records from position `start` on, in order
 * @property {(position: number, record: string) => Promise<boolean>} append when it resolves with
 *   true, the record is kept at this position whatever happens next; false: that position is taken
 */

/** A device's memory cannot be used, so nothing is reported. */
export class StorageError extends RefusedError {}

/**
 * The records of numbered entries, if none is missing before the last.
 *
 * @param {Iterable<[number, string]>} entries in any order
 * @param {number} start
 * @returns {string[]}
 */
export function withoutGaps(entries, start) {
  const sorted = [...entries].sort(([first], [second]) => first - second);
  if (sorted.some(([position], index) => position !== index)) {
    throw new StorageError("records of this device are missing, so nothing more is reported");
  }
  return sorted.slice(start).map(([, record]) => record);
}
