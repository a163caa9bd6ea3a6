/** @returns {StorageError} */
export function missing(): StorageError;
/**
 * The records from `start` on, if none is missing before the last.
 *
 * @param {Iterable<[number, string]>} entries from `start` on at least, in any order
 * @param {number} start
 * @param {number} total how many entries there are in all
 * @returns {string[]}
 */
export function withoutGaps(entries: Iterable<[number, string]>, start: number, total: number): string[];
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
export class StorageError extends RefusedError {
}
/**
 * A `CryptoKey` of Web Crypto, by what is needed of it: so the declarations need no DOM library.
 */
export type SecretKey = {
    type: string;
    extractable: boolean;
};
export type Storage = {
    /**
     * the records from position `start` on, in order
     */
    read: (start: number) => Promise<string[]>;
    /**
     * when it resolves with
     * true, the record is kept at this position whatever happens next; false: that position is taken
     */
    append: (position: number, record: string) => Promise<boolean>;
    /**
     * a key for HMAC with SHA-256 that cannot be read out, made
     * when it is first asked for and as durable as the records; without it a record holds the key
     */
    key?: (() => Promise<SecretKey>) | undefined;
};
import { RefusedError } from "../errors.js";
