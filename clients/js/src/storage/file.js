/**
 * In Node: a folder with one small file a record.
 *
 *     new file → fsync → linked to its number, which fails if the number is taken → fsync of the folder
 *
 * A process that is killed anywhere leaves either the whole record or none. Files are private (0600).
 * A folder that was copied or put back from a backup is refused (`head.js`).
 */

import { randomUUID } from "node:crypto";
import { link, mkdir, open, readdir, readFile, unlink } from "node:fs/promises";
import { join, resolve } from "node:path";

import { flag, refuseUnknown, text } from "../options.js";
import { checkedHead, writeHead } from "./head.js";
import { missing, StorageError, withoutGaps } from "./storage.js";

/** @typedef {import("./storage.js").Storage} Storage */

const RECORD = /^(\d+)\.json$/;

/**
 * The storage to use in Node. Several processes may share a folder.
 *
 * @implements {Storage}
 */
export class FileStorage {
  #usable = true;
  #moved;

  /**
   * @param {string} folder is made if it is not there
   * @param {{ moved?: boolean }} [options] `moved`: accept a folder that came from another disk or a
   *   backup, which looks like a copy. Only if the original will never be used again, and nothing was
   *   reported since: two copies would answer a round differently
   */
  constructor(folder, options = {}) {
    refuseUnknown(options, ["moved"]);
    this.#moved = flag("moved", options.moved);
    /** Where the records are: the same place if the process changes its working directory. */
    this.folder = resolve(text("folder", folder));
  }

  /**
   * @param {number} start
   * @returns {Promise<string[]>}
   */
  async read(start) {
    return this.#guarded("read", async () => {
      const names = await this.#names();
      const numbered = names.map((name) => /** @type {[number, string]} */ ([parseInt(name), name]));
      const wanted = withoutGaps(numbered, start, numbered.length);
      // Another process may have been killed between linking a record and flushing the folder.
      if (wanted.length > 0) await flushed(this.folder);
      return Promise.all(wanted.map((name) => readFile(join(this.folder, name), "utf8")));
    });
  }

  /**
   * @param {number} position
   * @param {string} record
   * @returns {Promise<boolean>}
   */
  async append(position, record) {
    return this.#guarded("written", async () => {
      await this.#names();
      const draft = join(this.folder, `.${randomUUID()}.draft`);
      await written(draft, record);
      try {
        await link(draft, join(this.folder, `${position}.json`));
      } catch (error) {
        if (code(error) === "EEXIST") return false;
        throw error;
      } finally {
        await unlink(draft);
      }
      this.#usable = false; // if flushing fails, what the disk holds is not known
      await flushed(this.folder);
      await writeHead(this.folder, position + 1);
      this.#usable = true;
      return true;
    });
  }

  /** The records in a folder that is no copy: the head first, since others may append meanwhile. */
  async #names() {
    await mkdir(this.folder, { recursive: true, mode: 0o700 });
    const least = await checkedHead(this.folder, this.#moved);
    this.#moved = false;
    const names = (await readdir(this.folder)).filter((name) => RECORD.test(name));
    if (names.length < least) throw missing();
    return names;
  }

  /**
   * @template Result
   * @param {string} verb
   * @param {() => Promise<Result>} action
   * @returns {Promise<Result>}
   */
  async #guarded(verb, action) {
    if (!this.#usable) throw new StorageError(`${this.folder} could not be written before`);
    try {
      return await action();
    } catch (error) {
      if (error instanceof StorageError) throw error;
      throw new StorageError(
        `nothing was reported: ${this.folder} could not be ${verb}: ${code(error)}`,
      );
    }
  }
}

/**
 * @param {string} path
 * @param {string} text
 */
async function written(path, text) {
  const file = await open(path, "wx", 0o600);
  try {
    await file.writeFile(text);
    await file.sync();
  } finally {
    await file.close();
  }
}

/** @param {string} folder */
async function flushed(folder) {
  if (process.platform === "win32") return; // there a folder cannot be opened, nor need it be
  const handle = await open(folder, "r");
  try {
    await handle.sync();
  } finally {
    await handle.close();
  }
}

/** @param {unknown} error */
function code(error) {
  return /** @type {NodeJS.ErrnoException} */ (error).code ?? "unknown";
}
