/**
 * Which round is open, and until when.
 *
 * @param {unknown} message text, or the object that was read from it
 * @returns {{ task: string, round: string, closes: string, acceptedUntil: string }}
 */
export function roundOf(message: unknown): {
    task: string;
    round: string;
    closes: string;
    acceptedUntil: string;
};
/**
 * What became of reports, in their order.
 *
 * @param {unknown} message text, or the object that was read from it
 * @param {number} count how many were sent
 * @returns {string[]}
 */
export function outcomesOf(message: unknown, count: number): string[];
