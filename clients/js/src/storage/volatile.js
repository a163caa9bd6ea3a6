/** For tests and demonstrations: forgets everything with the page or process, so it protects little. */

/** @typedef {import("./storage.js").Storage} Storage */

/** @implements {Storage} */
export class VolatileStorage {
  /** @type {string[]} */
  #records = [];

  /**
   * @param {number} start
   * @returns {Promise<string[]>}
   */
  async read(start) {
    return this.#records.slice(start);
  }

  /**
   * @param {number} position
   * @param {string} record
   * @returns {Promise<boolean>}
   */
  async append(position, record) {
    if (position !== this.#records.length) return false;
    this.#records.push(record);
    return true;
  }
}
