/**
 * The storage to use in Node. Several processes may share a folder.
 *
 * @implements {Storage}
 */
export class FileStorage implements Storage {
    /**
     * @param {string} folder is made if it is not there
     * @param {{ moved?: boolean }} [options] `moved`: accept a folder that came from another disk or a
     *   backup, which looks like a copy. Only if the original will never be used again, and nothing was
     *   reported since: two copies would answer a round differently
     */
    constructor(folder: string, options?: {
        moved?: boolean;
    });
    /** Where the records are: the same place if the process changes its working directory. */
    folder: string;
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
