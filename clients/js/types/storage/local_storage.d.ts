/** @typedef {import("./storage.js").Storage} Storage */
/**
 * Survives reloads and restarts of the browser. Browsers write it to the disk some seconds late: after
 * a power cut a device may have forgotten its last report. `IndexedDBStorage` has no such gap.
 *
 * @implements {Storage}
 */
export class LocalStorage implements Storage {
    /** @param {string} [name] of this device's memory */
    constructor(name?: string);
    /**
     * @param {number} start
     * @returns {Promise<string[]>}
     */
    read(start: number): Promise<string[]>;
    /**
     * @param {number} position
     * @param {string} record
     * @returns {Promise<boolean>}
     */
    append(position: number, record: string): Promise<boolean>;
    #private;
}
export type Storage = import("./storage.js").Storage;
