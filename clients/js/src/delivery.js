/**
 * How a report reaches a service: which round, what is asked, draw, send, acknowledge.
 *
 *     GET round → GET announcement → pin, then report ║ POST reports → acknowledge
 *
 * Before the report is drawn a failure costs nothing. From then on the pinned report waits in the
 * device's storage, and is sent again by the next call, or when the network is back: the same message, so
 * it costs nothing more.
 */

import { MessageError, NotAskedError, RefusedError, SettingError, UnreachableError } from "./errors.js";
import { text } from "./options.js";
import { outcomesOf, roundOf } from "./task_messages.js";
import { secureWords } from "./words.js";

/** @import { Client } from "./client.js" */
/** @import { Report } from "./messages.js" */

/**
 * What became of a report.
 *
 * @typedef {object} Delivered
 * @property {string} round of the report
 * @property {string} outcome "accepted", "duplicate" (it was taken before), "late", the reason why it was
 *   rejected, or "queued": it is kept on the device, and sent again when the network is back
 */

/**
 * @typedef {object} DeliveryOptions
 * @property {string} [token] of a device
 * @property {number} [patience] for how many seconds a call tries again; 10, unless you say so
 */

/** @typedef {{ status: number, body: string, retryAfter: number }} Answer */

const AT_ONCE = 100; // reports in one request
const FIRST_WAIT = 0.25; // seconds between attempts, doubled each time
const LONGEST_WAIT = 30;
const TIMEOUT = 20_000; // milliseconds of an attempt
const BUSY = [408, 425, 429, 500, 502, 503, 504];
const REPORTS = "application/vnd.tidegate.reports+jsonl";

/** A task of a service, as its devices see it. */
export class Task {
  #url;
  #token;
  #patience;

  /**
   * @param {string} url of the task: `https://host/v1/tasks/ID`, or the path of it on the same site
   * @param {DeliveryOptions} options
   */
  constructor(url, { token, patience = 10 }) {
    const base = globalThis.location?.href;
    /** @type {URL} */
    let place;
    try {
      place = new URL(text("url", url), base);
    } catch {
      throw new SettingError("url", "must be that of a task: https://host/v1/tasks/ID");
    }
    /** The id of the task: the names of its rounds begin with it. */
    this.id = place.pathname.replace(/\/+$/, "").split("/").at(-1) ?? "";
    if (!/^https?:$/.test(place.protocol) || this.id === "") {
      throw new SettingError("url", "must be that of a task: https://host/v1/tasks/ID");
    }
    if (typeof patience !== "number" || !(patience >= 0)) {
      throw new SettingError("patience", "must be a number of seconds");
    }
    this.#url = `${place.origin}${place.pathname.replace(/\/+$/, "")}`;
    this.#token = token === undefined ? undefined : text("token", token);
    this.#patience = patience;
  }

  /**
   * The name of the round that is open.
   *
   * @returns {Promise<string>}
   */
  async openRound() {
    const { task, round } = roundOf(expected(await this.#called("GET", "/round")));
    if (task !== this.id || !round.startsWith(`${this.id}.`)) {
      throw new MessageError("round: it is of another task");
    }
    return round;
  }

  /**
   * What a device of this name is asked; undefined: the round has just closed.
   *
   * @param {string} round
   * @param {string} client
   * @returns {Promise<string | undefined>}
   */
  async announcement(round, client) {
    const query = new URLSearchParams({ round, client });
    const answer = await this.#called("GET", `/announcement?${query}`);
    if (answer.status === 204) throw new NotAskedError(answer.retryAfter || 1);
    return answer.status === 409 ? undefined : expected(answer);
  }

  /**
   * What became of each.
   *
   * @param {Report[]} reports
   * @returns {Promise<string[]>}
   */
  async send(reports) {
    const body = reports.map((report) => JSON.stringify(report)).join("\n");
    return outcomesOf(expected(await this.#called("POST", "/reports", body)), reports.length);
  }

  /**
   * @param {string} method
   * @param {string} path
   * @param {string} [body]
   * @returns {Promise<Answer>}
   */
  async #called(method, path, body) {
    /** @type {Record<string, string>} */
    const headers = this.#token === undefined ? {} : { Authorization: `Bearer ${this.#token}` };
    if (body !== undefined) headers["Content-Type"] = REPORTS;
    return patiently(() => attempt(this.#url + path, method, headers, body), this.#patience);
  }
}

/**
 * Answer the open round of a task, and send all that waits for it.
 *
 * @param {Client} client
 * @param {Task} task
 * @param {number | bigint} value
 * @param {string} event
 * @returns {Promise<Delivered>}
 */
export async function reportTo(client, task, value, event) {
  let round = await task.openRound();
  if ((await client.sent(round)) === undefined) {
    let announcement = await task.announcement(round, await client.nameIn(round));
    if (announcement === undefined) {
      round = await task.openRound();
      announcement = await task.announcement(round, await client.nameIn(round));
    }
    if (announcement === undefined) {
      throw new RefusedError("the service does not ask in the round that it says is open");
    }
    await client.answer(announcement, value, { event, round });
  }
  try {
    const delivered = await deliverTo(client, task);
    const found = delivered.find((one) => one.round === round);
    if (found) return found;
  } catch (error) {
    if (!(error instanceof UnreachableError)) throw error;
    whenOnline(() => deliverTo(client, task));
    return { round, outcome: "queued" };
  }
  const known = /** @type {Report} */ (await client.sent(round));
  const [outcome] = await task.send([known]); // acknowledged by an earlier call: taken then, or refused
  return { round, outcome };
}

/**
 * Send the reports of a task of which nobody has said that they arrived.
 *
 * @param {Client} client
 * @param {Task} task
 * @returns {Promise<Delivered[]>}
 */
export async function deliverTo(client, task) {
  const mine = (await client.unacknowledged()).filter(({ round }) => round.startsWith(`${task.id}.`));
  /** @type {Delivered[]} */
  const delivered = [];
  for (let start = 0; start < mine.length; start += AT_ONCE) {
    const some = mine.slice(start, start + AT_ONCE);
    const outcomes = await task.send(some);
    for (const [index, { round }] of some.entries()) {
      await client.acknowledge(round); // taken, or never will be
      delivered.push({ round, outcome: outcomes[index] });
    }
  }
  return delivered;
}

/**
 * Try again while the service cannot be reached or is busy, ever more rarely.
 *
 * @param {() => Promise<Answer>} once
 * @param {number} patience in seconds
 * @returns {Promise<Answer>}
 */
export async function patiently(once, patience) {
  const deadline = performance.now() / 1000 + patience;
  const words = secureWords();
  for (let wait = FIRST_WAIT; ; wait *= 2) {
    let problem = "no answer";
    let asked = 0;
    try {
      const answer = await once();
      if (!BUSY.includes(answer.status)) return answer;
      problem = `the service answered ${answer.status}`;
      asked = answer.retryAfter;
    } catch (error) {
      problem = error instanceof Error ? error.name : problem;
    }
    // Between half and all of it, so that devices do not come back all at once.
    const chance = 0.5 + words() / 2 ** 33;
    const pause = Math.max(Math.min(wait, LONGEST_WAIT) * chance, asked);
    if (performance.now() / 1000 + pause > deadline) {
      throw new UnreachableError(`the service cannot be reached (${problem})`);
    }
    await new Promise((resolve) => setTimeout(resolve, pause * 1000));
  }
}

/**
 * Once, when the browser says that the network is back; nothing in Node, where the next call sends it.
 *
 * @param {() => Promise<unknown>} action
 */
function whenOnline(action) {
  const again = () => action().catch(() => whenOnline(action)); // it is kept all the same
  globalThis.addEventListener?.("online", again, { once: true });
}

/**
 * @param {string} url
 * @param {string} method
 * @param {Record<string, string>} headers
 * @param {string} [body]
 * @returns {Promise<Answer>}
 */
async function attempt(url, method, headers, body) {
  const response = await fetch(url, {
    method,
    headers,
    body,
    credentials: "omit",
    redirect: "error", // a report goes where it was meant to go, and so does the token
    referrerPolicy: "no-referrer",
    keepalive: body !== undefined && body.length < 60_000, // a page that is left still sends it
    signal: AbortSignal.timeout(TIMEOUT),
  });
  const retryAfter = Number(response.headers.get("Retry-After") ?? 0);
  const found = await response.text();
  return { status: response.status, body: found, retryAfter: retryAfter >= 0 ? retryAfter : 0 };
}

/**
 * @param {Answer} answer
 * @returns {string} its body
 */
function expected({ status, body }) {
  if (status === 200) return body;
  if (status === 401 || status === 403) {
    throw new RefusedError("token: the service does not let this device in");
  }
  if (status === 421) {
    throw new RefusedError("url: reports of this task go to another address: its shuffler's if it has one, else the service's");
  }
  throw new RefusedError(`the service answered ${status}, which was not expected`);
}
