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
 * A `CryptoKey` of Web Crypto, by what is needed of it: so the declarations need no DOM library.
 *
 * @typedef {object} SecretKey
 * @property {string} type
 * @property {boolean} extractable
 */

/**
 * @typedef {object} Storage
 * @property {(start: number) => Promise<string[]>} read the records from position `start` on, in order
 * @property {(position: number, record: string) => Promise<boolean>} append when it resolves with
 *   true, the record is kept at this position whatever happens next; false: that position is taken
 * @property {() => Promise<SecretKey>} [key] a key for HMAC with SHA-256 that cannot be read out, made
 *   when it is first asked for and as durable as the records; without it a record holds the key
 */

/** A device's memory cannot be used, so nothing is reported. */
export class StorageError extends RefusedError {}

/** @returns {StorageError} */
export function missing() {
  return new StorageError("records of this device are missing, so nothing more is reported");
}

/**
 * The records from `start` on, if none is missing before the last.
 *
 * @param {Iterable<[number, string]>} entries from `start` on at least, in any order
 * @param {number} start
 * @param {number} total how many entries there are in all
 * @returns {string[]}
 */
export function withoutGaps(entries, start, total) {
  const wanted = [...entries].filter(([position]) => position >= start);
  wanted.sort(([first], [second]) => first - second);
  const gap = wanted.some(([position], index) => position !== start + index);
  if (gap || total !== start + wanted.length) {
    throw missing();
  }
  return wanted.map(([, record]) => record);
}
