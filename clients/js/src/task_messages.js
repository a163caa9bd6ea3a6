/** Messages of a service beside announcements and reports: the open round, and outcomes. */

import { SettingError } from "./errors.js";
import { nameField, naming, present, read } from "./wire.js";

const OUTCOMES = [
  "accepted", "duplicate", "late", "malformed", "version", "round", "slot", "phase", "epsilon",
  "domain", "assignment",
]; // prettier-ignore

/**
 * Which round is open, and until when.
 *
 * @param {unknown} message text, or the object that was read from it
 * @returns {{ task: string, round: string, closes: string, acceptedUntil: string }}
 */
export function roundOf(message) {
  const plain = read(message, "round", 7);
  return naming("round", () => {
    for (const name of ["opens", "closes", "accepted_until"]) {
      const value = present(plain, name);
      if (typeof value !== "string" || value.length > 64) {
        throw new SettingError(name, "must be text of at most 64 characters");
      }
    }
    return {
      task: nameField(plain, "task"),
      round: nameField(plain, "round"),
      closes: /** @type {string} */ (plain.closes),
      acceptedUntil: /** @type {string} */ (plain.accepted_until),
    };
  });
}

/**
 * What became of reports, in their order.
 *
 * @param {unknown} message text, or the object that was read from it
 * @param {number} count how many were sent
 * @returns {string[]}
 */
export function outcomesOf(message, count) {
  const plain = read(message, "outcomes", 3);
  return naming("outcomes", () => {
    const rows = present(plain, "outcomes");
    if (!Array.isArray(rows) || rows.length !== count) {
      throw new SettingError("outcomes", "must be one for every report");
    }
    return rows.map((row) => {
      const outcome = Object(row).outcome;
      if (!OUTCOMES.includes(outcome)) {
        throw new SettingError("outcomes", "has an outcome that is not known");
      }
      return outcome;
    });
  });
}
