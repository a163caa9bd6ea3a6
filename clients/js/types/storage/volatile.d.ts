/** For tests and demonstrations: forgets everything with the page or process, so it protects little. */
/** @typedef {import("./storage.js").Storage} Storage */
/** @implements {Storage} */
export class VolatileStorage implements Storage {
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
