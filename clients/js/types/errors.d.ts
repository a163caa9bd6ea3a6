/** The errors users meet. None ever carries a value of the device, or a random word. */
/** Base of every error that this client throws on purpose. */
export class TidegateError extends Error {
    /** @param {string} message what is wrong */
    constructor(message: string);
}
/** A setting, or a field of a message, is wrong. Both are public, so the message may show them. */
export class SettingError extends TidegateError {
    /**
     * @param {string} setting which one
     * @param {string} problem what is wrong with it
     */
    constructor(setting: string, problem: string);
    /** Which setting or field. */
    setting: string;
    /** What is wrong with it. */
    problem: string;
}
/** A message cannot be used: malformed, or of another version. Nothing was recorded. */
export class MessageError extends TidegateError {
    /**
     * @param {string} problem which message, which field, what is wrong
     * @param {"malformed" | "version"} [reason]
     */
    constructor(problem: string, reason?: "malformed" | "version");
    /** Whether the message is malformed, or of another version. */
    reason: "malformed" | "version";
}
/** A value is not a number. Says so, never what it was. */
export class InputError extends TidegateError {
}
/** Something was refused to protect privacy: a budget, or a second report where one was given. */
export class RefusedError extends TidegateError {
}
/** The service could not be reached. If nothing is queued, nothing was drawn or spent. */
export class UnreachableError extends TidegateError {
}
/** The service asks nobody else at the moment: nothing was drawn or spent. */
export class NotAskedError extends TidegateError {
    /** @param {number} seconds */
    constructor(seconds: number);
    /** Come again after so many. */
    seconds: number;
}
