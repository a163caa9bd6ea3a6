/**
 * Note that a folder has so many records; it has entries that were made after itself.
 *
 * @param {string} folder
 * @param {number} records
 */
export function writeHead(folder: string, records: number): Promise<void>;
/**
 * How many records a folder has at least; 0 if nothing is known. One that is a copy is refused.
 *
 * @param {string} folder
 * @param {boolean} moved accept a copy
 * @returns {Promise<number>}
 */
export function checkedHead(folder: string, moved: boolean): Promise<number>;
