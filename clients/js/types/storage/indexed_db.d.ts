/**
 * The storage to use in a browser. All tabs of a site share it; `add` refuses a position that is
 * taken, in whichever tab. The browser is asked to keep it when space runs out (`persisted` says
 * whether it will). The device's key is kept as a key that no script can read.
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
    /**
     * The key of this device: made once, by whichever tab is first.
     *
     * @returns {Promise<SecretKey>}
     */
    key(): Promise<SecretKey>;
    /**
     * Whether the browser has promised to keep the records when space runs out. Otherwise it may
     * delete all of them, and the device would be a new one.
     *
     * @returns {Promise<boolean>}
     */
    persisted(): Promise<boolean>;
    /** Let others delete or upgrade the database. */
    close(): Promise<void>;
    #private;
}
export type SecretKey = import("./storage.js").SecretKey;
export type Storage = import("./storage.js").Storage;
