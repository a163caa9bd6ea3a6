/** In a browser: IndexedDB, with transactions that wait for the disk. */

import { text } from "../options.js";
import { StorageError, withoutGaps } from "./storage.js";

/** @typedef {import("./storage.js").SecretKey} SecretKey */
/** @typedef {import("./storage.js").Storage} Storage */

const RECORDS = "records";
const KEYS = "keys";
const DEVICE = "device";
const HMAC = { name: "HMAC", hash: "SHA-256", length: 256 };

/**
 * The storage to use in a browser. All tabs of a site share it; `add` refuses a position that is
 * taken, in whichever tab. The browser is asked to keep it when space runs out (`persisted` says
 * whether it will). The device's key is kept as a key that no script can read.
 *
 * @implements {Storage}
 */
export class IndexedDBStorage {
  #name;
  /** @type {Promise<IDBDatabase> | undefined} */
  #database;

  /** @param {string} [name] of the database */
  constructor(name = "tidegate") {
    this.#name = text("name", name);
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

  /**
   * The key of this device: made once, by whichever tab is first.
   *
   * @returns {Promise<SecretKey>}
   */
  async key() {
    // Before the transaction, which ends when it waits for anything else.
    const made = await crypto.subtle.generateKey(HMAC, false, ["sign"]);
    const transaction = await this.#transaction("readwrite", [RECORDS, KEYS]);
    const keys = transaction.objectStore(KEYS);
    const [known, count] = [keys.get(DEVICE), transaction.objectStore(RECORDS).count()];
    let added = false;
    count.onsuccess = () => {
      // With records but without their key, a value could not be known again.
      if (known.result !== undefined || count.result > 0) return;
      added = true;
      keys.add(made, DEVICE);
    };
    await completed(transaction);
    const key = added ? made : known.result;
    if (key === undefined) {
      throw new StorageError("the key of this device is missing, so nothing more is reported");
    }
    return key;
  }

  /**
   * Whether the browser has promised to keep the records when space runs out. Otherwise it may
   * delete all of them, and the device would be a new one.
   *
   * @returns {Promise<boolean>}
   */
  async persisted() {
    await this.#opened();
    return (await navigator.storage?.persisted?.()) ?? false;
  }

  /** Let others delete or upgrade the database. */
  async close() {
    const database = await this.#database;
    this.#database = undefined;
    database?.close();
  }

  /**
   * @param {IDBTransactionMode} mode
   * @param {string[]} [stores]
   * @returns {Promise<IDBTransaction>}
   */
  async #transaction(mode, stores = [RECORDS]) {
    try {
      const database = await this.#opened();
      // "strict": complete means written to the disk, not handed to the operating system.
      return database.transaction(stores, mode, { durability: "strict" });
    } catch (error) {
      this.#database = undefined; // to be opened anew
      throw failure(error);
    }
  }

  /** @returns {Promise<IDBDatabase>} */
  #opened() {
    this.#database ??= new Promise((resolve, reject) => {
      // Not waited for: some browsers ask the user, who may take their time.
      navigator.storage?.persist?.().catch(() => false);
      const request = indexedDB.open(this.#name, 2);
      request.onupgradeneeded = () => {
        for (const store of [RECORDS, KEYS]) {
          if (!request.result.objectStoreNames.contains(store)) {
            request.result.createObjectStore(store);
          }
        }
      };
      request.onsuccess = () => {
        // Another version of this module wants the database: let it, and open it anew.
        request.result.onversionchange = () => this.close();
        resolve(request.result);
      };
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
