/**
 * The storage to use in a browser. All tabs of a site share it; `add` refuses a position that is
 * taken, in whichever tab.
 *
 * @implements {Storage}
 */
export class IndexedDBStorage implements Storage {
    /** @param {string} [name] of the database */
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
    /** Let others delete or upgrade the database. */
    close(): Promise<void>;
    #private;
}
export type Storage = import("./storage.js").Storage;
