/** In a browser: IndexedDB, with transactions that wait for the disk. */

import { StorageError, withoutGaps } from "./storage.js";

/** @typedef {import("./storage.js").Storage} Storage */

const RECORDS = "records";

/**
 * The storage to use in a browser. All tabs of a site share it; `add` refuses a position that is
 * taken, in whichever tab.
 *
 * @implements {Storage}
 */
export class IndexedDBStorage {
  #name;
  /** @type {Promise<IDBDatabase> | undefined} */
  #database;

  /** @param {string} [name] of the database */
  constructor(name = "tidegate") {
    this.#name = name;
  }

  /**
   * @param {number} start
   * @returns {Promise<string[]>}
   */
  async read(start) {
    const transaction = await this.#transaction("readonly");
    const store = transaction.objectStore(RECORDS);
    const range = IDBKeyRange.lowerBound(start);
    const [keys, records, count] = [store.getAllKeys(range), store.getAll(range), store.count()];
    await completed(transaction);
    const entries = keys.result.map((key, index) => [Number(key), records.result[index]]);
    return withoutGaps(/** @type {[number, string][]} */ (entries), start, count.result);
  }

  /**
   * @param {number} position
   * @param {string} record
   * @returns {Promise<boolean>}
   */
  async append(position, record) {
    const transaction = await this.#transaction("readwrite");
    const done = completed(transaction);
    let taken = false;
    const request = transaction.objectStore(RECORDS).add(record, position);
    request.onerror = (event) => {
      if (request.error?.name !== "ConstraintError") return; // aborts the transaction
      taken = true;
      event.preventDefault();
      event.stopPropagation();
    };
    await done;
    return !taken;
  }

  /** Let others delete or upgrade the database. */
  async close() {
    const database = await this.#database;
    this.#database = undefined;
    database?.close();
  }

  /**
   * @param {IDBTransactionMode} mode
   * @returns {Promise<IDBTransaction>}
   */
  async #transaction(mode) {
    try {
      const database = await this.#opened();
      // "strict": complete means written to the disk, not handed to the operating system.
      return database.transaction(RECORDS, mode, { durability: "strict" });
    } catch (error) {
      this.#database = undefined; // to be opened anew
      throw failure(error);
    }
  }

  /** @returns {Promise<IDBDatabase>} */
  #opened() {
    this.#database ??= new Promise((resolve, reject) => {
      const request = indexedDB.open(this.#name, 1);
      request.onupgradeneeded = () => request.result.createObjectStore(RECORDS);
      request.onsuccess = () => resolve(request.result);
      request.onerror = () => reject(request.error);
    });
    return this.#database;
  }
}

/**
 * @param {IDBTransaction} transaction
 * @returns {Promise<void>}
 */
function completed(transaction) {
  return new Promise((resolve, reject) => {
    transaction.oncomplete = () => resolve();
    transaction.onabort = () => reject(failure(transaction.error));
  });
}

/** @param {unknown} error */
function failure(error) {
  const name = error instanceof DOMException ? error.name : "unknown";
  return new StorageError(`nothing was reported: IndexedDB failed: ${name}`);
}
