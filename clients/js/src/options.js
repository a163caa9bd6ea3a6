/** What a client is given, and whether it can work at all. */

import { RefusedError, SettingError } from "./errors.js";

/**
 * A mistyped `lifetime` or `event` that was ignored would not protect what it was meant to.
 *
 * @param {object} options
 * @param {string[]} known
 * @returns {void}
 */
export function refuseUnknown(options, known) {
  if (typeof options !== "object" || options === null) {
    throw new SettingError("options", `must be an object with ${known.join(", ")}`);
  }
  for (const name of Object.keys(options)) {
    if (!known.includes(name)) {
      throw new SettingError(name, `is no option; there are ${known.join(", ")}`);
    }
  }
}

/**
 * @param {string} name
 * @param {unknown} [value]
 * @returns {boolean} false if it was not given
 */
export function flag(name, value = false) {
  if (typeof value !== "boolean") throw new SettingError(name, "must be true or false");
  return value;
}

/**
 * An object in the place of a name would be a storage of its own, shared with nobody.
 *
 * @param {string} setting
 * @param {unknown} value
 * @returns {string}
 */
export function text(setting, value) {
  if (typeof value !== "string" || value === "") throw new SettingError(setting, "must be text");
  return value;
}

/**
 * Browsers give Web Crypto's digests and keys to secure pages only.
 *
 * @returns {void}
 */
export function refuseWithoutCrypto() {
  if (typeof globalThis.crypto?.subtle?.digest !== "function") {
    throw new RefusedError(
      "Web Crypto is missing: serve the page over HTTPS, or from localhost. Nothing was reported",
    );
  }
}
