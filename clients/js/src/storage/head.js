/**
 * The head of a folder of records: how many there were, and which file says so.
 *
 * A folder that was copied, or put back from a backup, would answer rounds a second time with other
 * randomness. So every append writes a new head, which holds the number of its own inode and when
 * that inode was made. A copy has another inode, or a later birth: no backup can set that.
 *
 * The time of birth counts only where the file system has one: elsewhere Node gives 0, or the time
 * of the last change. Without it a number that is used again may let a copy pass. A copy of the
 * whole disk is not noticed.
 */

import { randomUUID } from "node:crypto";
import { open, rename, stat, unlink } from "node:fs/promises";
import { join } from "node:path";

import { StorageError } from "./storage.js";

const HEAD = "head";
const MOST = 1000; // bytes

/**
 * Note that a folder has so many records; it has entries that were made after itself.
 *
 * @param {string} folder
 * @param {number} records
 */
export async function writeHead(folder, records) {
  const draft = join(folder, `.${randomUUID()}.draft`);
  const file = await open(draft, "wx", 0o600);
  try {
    const { ino, birthtimeNs } = await file.stat({ bigint: true });
    const birth = (await tellsBirths(folder)) ? `${birthtimeNs}` : undefined;
    await file.writeFile(JSON.stringify({ records, inode: `${ino}`, birth }));
    await file.sync();
    await rename(draft, join(folder, HEAD));
  } catch (error) {
    await unlink(draft).catch(() => undefined);
    throw error;
  } finally {
    await file.close();
  }
}

/**
 * Whether a file system knows when a file was made: a folder has changed since.
 *
 * @param {string} folder
 */
async function tellsBirths(folder) {
  const { birthtimeNs, ctimeNs } = await stat(folder, { bigint: true });
  return birthtimeNs > 0n && birthtimeNs < ctimeNs;
}

/**
 * How many records a folder has at least; 0 if nothing is known. One that is a copy is refused.
 *
 * @param {string} folder
 * @param {boolean} moved accept a copy
 * @returns {Promise<number>}
 */
export async function checkedHead(folder, moved) {
  const found = await readHead(folder);
  if (found === undefined) return 0; // nothing was appended yet, or by a version without heads
  const { ino, birthtimeNs, nlink, head } = found;
  if (nlink > 1n) {
    throw new StorageError(`${folder} has a second name, so nothing is reported`);
  }
  if (head.inode !== `${ino}` || (head.birth ?? `${birthtimeNs}`) !== `${birthtimeNs}`) {
    if (!moved) {
      throw new StorageError(
        `${folder} is a copy: the original could answer the same rounds with other reports. If ` +
          `the original will never be used again: new FileStorage(folder, { moved: true })`,
      );
    }
    await writeHead(folder, head.records);
  }
  return head.records;
}

/** @param {string} folder */
async function readHead(folder) {
  let file;
  try {
    file = await open(join(folder, HEAD), "r");
  } catch (error) {
    if (/** @type {NodeJS.ErrnoException} */ (error).code === "ENOENT") return undefined;
    throw error;
  }
  try {
    // Of the file that was opened, whichever has the name by now.
    const { ino, birthtimeNs, nlink, size } = await file.stat({ bigint: true });
    const text = size <= MOST ? await file.readFile("utf8") : "";
    return { ino, birthtimeNs, nlink, head: parsed(folder, text) };
  } finally {
    await file.close();
  }
}

/**
 * @param {string} folder
 * @param {string} text
 * @returns {{ records: number, inode: string, birth?: string }}
 */
function parsed(folder, text) {
  try {
    const head = JSON.parse(text);
    if (Number.isSafeInteger(head.records) && typeof head.inode === "string") return head;
  } catch {
    // said below
  }
  throw new StorageError(`the head of ${folder} is damaged, so nothing more is reported`);
}
