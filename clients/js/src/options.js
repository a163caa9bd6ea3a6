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
  for (const name of Object.keys(Object(options))) {
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
