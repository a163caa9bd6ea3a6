/** In a browser: localStorage, where IndexedDB is not wanted. */

import { StorageError, withoutGaps } from "./storage.js";

/** @typedef {import("./storage.js").Storage} Storage */

/**
 * Survives reloads and restarts of the browser. Browsers write it to the disk some seconds late: after
 * a power cut a device may have forgotten its last report. `IndexedDBStorage` has no such gap.
 *
 * @implements {Storage}
 */
export class LocalStorage {
  #prefix;
  #storage;
  #locks;

  /** @param {string} [name] of this device's memory */
  constructor(name = "tidegate") {
    this.#prefix = `${name}:`;
    this.#storage = globalThis.localStorage;
    this.#locks = globalThis.navigator?.locks;
    if (!this.#storage || !this.#locks) {
      throw new StorageError("localStorage needs a browser and a page served over HTTPS");
    }
  }

  /**
   * @param {number} start
   * @returns {Promise<string[]>}
   */
  async read(start) {
    /** @type {[number, string][]} */
    const entries = [];
    for (const [key, record] of Object.entries(this.#storage)) {
      const position = key.slice(this.#prefix.length);
      if (key.startsWith(this.#prefix) && /^\d+$/.test(position)) {
        entries.push([Number(position), record]);
      }
    }
    return withoutGaps(entries, start, entries.length);
  }

  /**
   * @param {number} position
   * @param {string} record
   * @returns {Promise<boolean>}
   */
  async append(position, record) {
    const key = `${this.#prefix}${position}`;
    // Tabs share a localStorage, and only a lock makes looking and writing one step.
    return this.#locks.request(`tidegate ${this.#prefix}`, () => {
      if (this.#storage.getItem(key) !== null) return false;
      try {
        this.#storage.setItem(key, record);
      } catch {
        throw new StorageError("nothing was reported: localStorage is full or switched off");
      }
      return true;
    });
  }
}
