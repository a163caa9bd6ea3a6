/**
 * What a device remembers of its reports, durable before a report leaves it.
 *
 * A device that is killed anywhere either knows a report or never sent it, and never draws a second
 * one for the same round: two reports on one value could be averaged. The records hold no values. The
 * device's names are made from a random key: where the storage can keep a key that no script can
 * read (IndexedDB), it does; elsewhere the first record holds it, and is as private as that.
 */

import { RefusedError } from "./errors.js";
import { Fraction } from "./fraction.js";
import { StorageError } from "./storage/storage.js";

/** @import { SecretKey, Storage } from "./storage/storage.js" */

/**
 * A line of the local ledger: what was reported in a round, and what it cost.
 *
 * @typedef {object} Pin
 * @property {string} round of the announcement that was answered, as are phase, slot and epsilon
 * @property {string} phase
 * @property {number} slot
 * @property {Fraction} epsilon
 * @property {string} digest of all of that announcement
 * @property {string} event a keyed digest of what the value was called
 * @property {string} client what was sent, as is report
 * @property {number} report
 * @property {string} time when, by the device's clock (UTC)
 */

const VERSION = 1;
const MOST_ROUNDS = 4096; // a server cannot fill a device's disk with cheap rounds
const KEY_BYTES = 32;
const IN_STORAGE = "in the storage";
const LONGEST = 1024; // characters of a record: two names of 128, two digests, and what is around
const FINEST = 10n ** 36n;
const TEXTS = ["round", "phase", "epsilon", "digest", "event", "client", "time"];
const NUMBERS = ["slot", "report"];

/** The reports of one device. */
export class Memory {
  #storage;
  /** @type {SecretKey | undefined} */
  #key;
  /** @type {Map<string, Pin>} */
  #rounds = new Map();
  /** @type {Set<string>} */
  #events = new Set();
  /** @type {Set<string>} */
  #acknowledged = new Set();
  #records = 0; // after the first
  #spent = new Fraction(0n);

  /** @param {Storage} storage */
  constructor(storage) {
    this.#storage = storage;
  }

  /** The sum of what all reports cost. */
  get spent() {
    return this.#spent;
  }

  /** The local ledger, in the order of reporting. */
  get pins() {
    return [...this.#rounds.values()];
  }

  /** The reports of which nobody has said that they arrived, in the order of reporting. */
  get unacknowledged() {
    return this.pins.filter((pin) => !this.#acknowledged.has(pin.round));
  }

  /**
   * What was reported in a round.
   *
   * @param {string} round
   */
  pin(round) {
    return this.#rounds.get(round);
  }

  /**
   * Whether a value of this (digested) name was reported on.
   *
   * @param {string} event
   */
  knows(event) {
    return this.#events.has(event);
  }

  /** Refuse if nothing more can be remembered: then nothing more may be reported. */
  check() {
    if (this.#rounds.size >= MOST_ROUNDS) {
      throw new RefusedError(`this device has answered ${MOST_ROUNDS} rounds, and answers no more`);
    }
  }

  /** Take in what other tabs or processes added; begin the records if there are none. */
  async refresh() {
    while (this.#key === undefined) {
      const [first] = await this.#storage.read(0);
      if (first !== undefined) this.#key = await keyOf(first, this.#storage);
      else await this.#storage.append(0, await newHead(this.#storage));
    }
    const records = await this.#storage.read(this.#records + 1);
    if (this.#records + records.length > 2 * MOST_ROUNDS) throw damaged(); // a report, that it arrived
    for (const record of records) this.#takeRecord(record);
  }

  /**
   * Remember a report. True: it may be sent. False: another record came first, decide again.
   *
   * @param {Pin} pin
   * @returns {Promise<boolean>}
   */
  async add(pin) {
    const record = JSON.stringify({ ...pin, epsilon: `${pin.epsilon}` });
    if (!(await this.#storage.append(this.#records + 1, record))) return false;
    this.#records += 1;
    this.#take(pin);
    return true;
  }

  /**
   * Remember that a report arrived. False: another record came first, decide again.
   *
   * @param {string} round
   * @returns {Promise<boolean>}
   */
  async acknowledge(round) {
    if (this.#acknowledged.has(round)) return true;
    if (!this.#rounds.has(round)) throw new RefusedError("nothing was reported in this round");
    const record = JSON.stringify({ acknowledged: round });
    if (!(await this.#storage.append(this.#records + 1, record))) return false;
    this.#records += 1;
    this.#acknowledged.add(round);
    return true;
  }

  /**
   * A name that only this device can make: a keyed digest in hexadecimal.
   *
   * @param {string} purpose
   * @param {string} text
   * @returns {Promise<string>}
   */
  async keyed(purpose, text) {
    const named = new TextEncoder().encode(`tidegate/1/${purpose}/${text}`);
    const key = /** @type {CryptoKey} */ (this.#key);
    return hexadecimal(await crypto.subtle.sign("HMAC", key, named));
  }

  /** @param {string} record */
  #takeRecord(record) {
    const { acknowledged } = parsed(record);
    if (acknowledged === undefined) this.#take(pinOf(record));
    else if (!this.#rounds.has(acknowledged) || this.#acknowledged.has(acknowledged)) throw damaged();
    else this.#acknowledged.add(acknowledged);
    this.#records += 1;
  }

  /** @param {Pin} pin */
  #take(pin) {
    if (this.#rounds.size >= MOST_ROUNDS) throw damaged();
    if (this.#rounds.has(pin.round) || this.#events.has(pin.event)) throw damaged();
    this.#rounds.set(pin.round, pin);
    this.#events.add(pin.event);
    this.#spent = short(this.#spent.plus(pin.epsilon));
  }
}

/**
 * @param {ArrayBuffer | Uint8Array} bytes
 * @returns {string}
 */
export function hexadecimal(bytes) {
  return Array.from(new Uint8Array(bytes), (byte) => byte.toString(16).padStart(2, "0")).join("");
}

/**
 * The first record, with a new key in it, or with a word that says that the storage has it.
 *
 * @param {Storage} storage
 * @returns {Promise<string>}
 */
async function newHead(storage) {
  const head = { tidegate: VERSION, kind: "memory" };
  if (storage.key) {
    await storage.key();
    return JSON.stringify({ ...head, key: IN_STORAGE });
  }
  const key = crypto.getRandomValues(new Uint8Array(KEY_BYTES));
  return JSON.stringify({ ...head, key: hexadecimal(key) });
}

/**
 * @param {string} record
 * @param {Storage} storage
 * @returns {Promise<SecretKey>}
 */
async function keyOf(record, storage) {
  const plain = parsed(record);
  if (plain.tidegate === VERSION && plain.kind === "memory" && plain.key === IN_STORAGE) {
    if (!storage.key) throw damaged();
    return storage.key();
  }
  const pairs = typeof plain.key === "string" ? plain.key.match(/[0-9a-f]{2}/g) : null;
  if (plain.tidegate !== VERSION || plain.kind !== "memory" || pairs?.length !== KEY_BYTES) {
    throw damaged();
  }
  const bytes = Uint8Array.from(pairs, (pair) => parseInt(pair, 16));
  return crypto.subtle.importKey("raw", bytes, { name: "HMAC", hash: "SHA-256" }, false, ["sign"]);
}

/**
 * @param {string} record
 * @returns {Pin}
 */
function pinOf(record) {
  const plain = parsed(record);
  const parts = /^(\d{1,18})(?:\/(\d{1,18}))?$/.exec(String(plain.epsilon));
  const whole =
    TEXTS.every((name) => typeof plain[name] === "string") &&
    NUMBERS.every((name) => Number.isSafeInteger(plain[name]) && plain[name] >= 0);
  if (!whole || !parts || parts[2] === "0") throw damaged();
  const epsilon = new Fraction(BigInt(parts[1]), BigInt(parts[2] ?? 1));
  return Object.freeze({ ...plain, epsilon });
}

/**
 * @param {string} record
 * @returns {any}
 */
function parsed(record) {
  if (typeof record !== "string" || record.length > LONGEST) throw damaged();
  try {
    return Object(JSON.parse(record));
  } catch {
    throw damaged();
  }
}

function damaged() {
  return new StorageError(
    "the records of this device are damaged or of another version: what was reported before is " +
      "not known, so nothing more is",
  );
}

/**
 * Rounded up where denominators chosen by a server would make the sum ever longer.
 *
 * @param {Fraction} spent
 * @returns {Fraction}
 */
function short(spent) {
  if (spent.denominator <= FINEST) return spent;
  const scaled = new Fraction(-spent.numerator * FINEST, spent.denominator);
  return new Fraction(-scaled.floor(), FINEST);
}
