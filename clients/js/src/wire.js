/**
 * Messages as text: JSON, read as strictly as Python's client does and refused in the same words.
 *
 * Numbers are doubles on both sides: 3.0 is a whole number, and 2**53 + 1 is 2**53.
 */

import { MessageError, SettingError } from "./errors.js";
import { Fraction } from "./fraction.js";
import { field, wholeField } from "./questions/question.js";

/** The version of the messages. */
export const VERSION = 1;
/** What answers are for: choosing the threshold, or the stream itself. */
export const PHASES = Object.freeze(["threshold", "stream"]);

// Characters. The largest table that Tidegate asks with makes an announcement of 141,000.
/** @type {Record<string, number>} */
const LONGEST = { announcement: 2 ** 18, report: 2 ** 12, round: 2 ** 12, outcomes: 2 ** 22 };
const SLOTS = 2 ** 16;
const NAME = /^[!-~]{1,128}$/;
const EXACT = /^([1-9][0-9]{0,17})(?:\/([1-9][0-9]{0,17}))?$/;
// Of text that is JSON: a name with its colon, another string, or where an object begins or ends.
const TOKEN = /("(?:[^"\\]|\\.)*")(\s*:)?|[{}]/g;

/**
 * The fields that announcements and reports share.
 *
 * @typedef {object} Common
 * @property {string} round
 * @property {string} phase
 * @property {Fraction} epsilon
 * @property {number} slot
 */

/**
 * An object of this kind and version with so many fields; the readers below name them all.
 *
 * @param {unknown} message JSON text, or what was read from it
 * @param {string} kind
 * @param {number} fields
 * @param {string} [optional] one more that may be there
 * @returns {Record<string, unknown>}
 */
export function read(message, kind, fields, optional = "") {
  const plain = parsed(message, kind);
  if (typeof plain !== "object" || plain === null || field(plain, "kind") !== kind) {
    throw new MessageError(`${kind}: must be an object of this kind`);
  }
  if (field(plain, "tidegate") !== VERSION) {
    throw new MessageError(`${kind}: its version must be ${VERSION}`, "version");
  }
  const expected = fields + (Object.hasOwn(plain, optional) ? 1 : 0);
  if (Object.keys(plain).length !== expected) {
    throw new MessageError(`${kind}: must have exactly ${fields} fields`);
  }
  return plain;
}

/**
 * What `make` gives; errors about a field say which message it is in.
 *
 * @template Made
 * @param {string} kind
 * @param {() => Made} make
 * @returns {Made}
 */
export function naming(kind, make) {
  try {
    return make();
  } catch (error) {
    if (error instanceof SettingError) throw new MessageError(`${kind}: ${error.message}`);
    throw error;
  }
}

/**
 * @param {Record<string, unknown>} plain
 * @returns {Common}
 */
export function common(plain) {
  const phase = present(plain, "phase");
  if (typeof phase !== "string" || !PHASES.includes(phase)) {
    throw new SettingError("phase", `must be one of ${PHASES.join(", ")}`);
  }
  return {
    round: nameField(plain, "round"),
    phase,
    epsilon: exactField(plain, "epsilon"),
    slot: wholeField(plain, "slot", 0, SLOTS - 1),
  };
}

/**
 * @param {Record<string, unknown>} plain
 * @param {string} name
 * @returns {unknown}
 */
export function present(plain, name) {
  if (!Object.hasOwn(plain, name)) throw new SettingError(name, "is missing");
  return plain[name];
}

/**
 * @param {Record<string, unknown>} plain
 * @param {string} name
 * @returns {string}
 */
export function nameField(plain, name) {
  const value = present(plain, name);
  if (typeof value !== "string" || !NAME.test(value)) {
    throw new SettingError(name, "must be text of 1 to 128 ASCII characters, without spaces");
  }
  return value;
}

/**
 * A fraction greater than 0 in its one spelling; short, so that a sum of many stays small.
 *
 * @param {Record<string, unknown>} plain
 * @param {string} name
 * @returns {Fraction}
 */
export function exactField(plain, name) {
  const value = present(plain, name);
  const parts = typeof value === "string" ? EXACT.exec(value) : null;
  if (parts) {
    const number = new Fraction(BigInt(parts[1]), BigInt(parts[2] ?? 1));
    if (number.toString() === value) return number;
  }
  throw new SettingError(
    name,
    'must be a fraction in lowest terms of at most 18 digits, such as "1" or "1/2"',
  );
}

/**
 * A fraction below 0 in its one spelling; 0 if the field is not there.
 *
 * @param {Record<string, unknown>} plain
 * @param {string} name
 * @returns {Fraction}
 */
export function lowerField(plain, name) {
  if (!Object.hasOwn(plain, name)) return new Fraction(0n);
  const value = plain[name];
  const parts = typeof value === "string" && value.startsWith("-") ? EXACT.exec(value.slice(1)) : null;
  if (parts) {
    const number = new Fraction(-BigInt(parts[1]), BigInt(parts[2] ?? 1));
    if (number.toString() === value) return number;
  }
  throw new SettingError(
    name,
    'must be a fraction below 0 in lowest terms, such as "-40"; without it, 0',
  );
}

/**
 * An object that was read elsewhere is written and read again: whatever it was, it is plain now.
 *
 * @param {unknown} message
 * @param {string} kind
 * @returns {any}
 */
function parsed(message, kind) {
  let text, plain;
  try {
    text = typeof message === "string" ? message : JSON.stringify(message);
    plain = text.length > LONGEST[kind] ? undefined : JSON.parse(text);
  } catch {
    throw new MessageError(`${kind}: not JSON`);
  }
  if (text.length > LONGEST[kind]) {
    throw new MessageError(`${kind}: longer than ${LONGEST[kind]} characters`);
  }
  if (hasDoubledName(text)) throw new MessageError(`${kind}: a name occurs twice`);
  return plain;
}

/**
 * Two readers may differ on which of two equal names counts. `JSON.parse` says nothing of them.
 *
 * @param {string} text valid JSON
 */
function hasDoubledName(text) {
  /** @type {Set<unknown>[]} */
  const open = []; // the names so far of each object around
  for (const [token, string, colon] of text.matchAll(TOKEN)) {
    if (token === "{") open.push(new Set());
    else if (token === "}") open.pop();
    else if (colon) {
      const [names, name] = [open[open.length - 1], JSON.parse(string)];
      if (names.has(name)) return true;
      names.add(name);
    }
  }
  return false;
}
