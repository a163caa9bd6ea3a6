/** The local model's client: numbers are perturbed where they are born. */

export { Client } from "./client.js";
export {
  InputError,
  MessageError,
  NotAskedError,
  RefusedError,
  SettingError,
  TidegateError,
  UnreachableError,
} from "./errors.js";
export { Fraction } from "./fraction.js";
export { Announcement, Report } from "./messages.js";
export { questionFromPlain, TailQuestion, ValueQuestion, WaveQuestion } from "./questions/index.js";
export { IndexedDBStorage } from "./storage/indexed_db.js";
export { StorageError } from "./storage/storage.js";
export { VolatileStorage } from "./storage/volatile.js";
export { secureWords } from "./words.js";

/** @typedef {import("./client.js").ClientOptions} ClientOptions */
/** @typedef {import("./delivery.js").Delivered} Delivered */
/** @typedef {import("./delivery.js").DeliveryOptions} DeliveryOptions */
/** @typedef {import("./fraction.js").Exact} Exact */
/** @typedef {import("./memory.js").Pin} Pin */
/** @typedef {import("./questions/question.js").Question} Question */
/** @typedef {import("./storage/storage.js").Storage} Storage */
/** @typedef {import("./words.js").Words} Words */
