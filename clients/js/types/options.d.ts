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
 * Browsers give Web Crypto's digests and keys to secure pages only.
 *
 * @returns {void}
 */
export function refuseWithoutCrypto(): void;
