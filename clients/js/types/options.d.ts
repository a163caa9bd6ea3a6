/**
 * A mistyped `lifetime` or `event` that was ignored would not protect what it was meant to.
 *
 * @param {object} options
 * @param {string[]} known
 * @returns {void}
 */
export function refuseUnknown(options: object, known: string[]): void;
/**
 * @param {string} name
 * @param {unknown} [value]
 * @returns {boolean} false if it was not given
 */
export function flag(name: string, value?: unknown): boolean;
/**
 * An object in the place of a name would be a storage of its own, shared with nobody.
 *
 * @param {string} setting
 * @param {unknown} value
 * @returns {string}
 */
export function text(setting: string, value: unknown): string;
/**
 * Browsers give Web Crypto's digests and keys to secure pages only.
 *
 * @returns {void}
 */
export function refuseWithoutCrypto(): void;
