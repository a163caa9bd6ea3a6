/**
 * The device's side: it trusts nobody, checks what it is asked, and answers a round once.
 *
 *     announcement → known round? → checks → draw → storage ║ report
 *                                            value          ║ one column of a public table
 *
 * What is released is one report per round, drawn from whole-number weights that the device has checked
 * itself: its distribution differs by at most e^ε between any two values. A round that comes again
 * gets the same report, whatever the value is by then. What it costs the device is the sum over its
 * reports, which never exceeds `lifetime`, exactly added, whatever the server asks in whatever order.
 *
 * Every check but the last reads the announcement and the records only: a refusal tells nothing about
 * the value. The last is that the value is a number within the bounds: a device that may meet others
 * sets `clamp`, for an error is silence, and silence can be seen.
 */

import { deliverTo, reportTo, Task } from "./delivery.js";
import { checkAnnouncement } from "./demands.js";
import { InputError, RefusedError, SettingError } from "./errors.js";
import { notPositive, positive } from "./fraction.js";
import { Lattice } from "./lattice.js";
import { hexadecimal, Memory } from "./memory.js";
import { Announcement, Report } from "./messages.js";
import { flag, refuseUnknown, refuseWithoutCrypto } from "./options.js";
import { ofOneRound, slotOf } from "./slots.js";
import { VolatileStorage } from "./storage/volatile.js";
import { nameField } from "./wire.js";
import { secureWords } from "./words.js";

/** @import { Delivered, DeliveryOptions } from "./delivery.js" */
/** @import { Exact, Fraction } from "./fraction.js" */
/** @import { Pin } from "./memory.js" */
/** @import { Storage } from "./storage/storage.js" */
/** @import { Words } from "./words.js" */

/**
 * @typedef {object} ClientOptions
 * @property {Exact} epsilon the most that one report may cost
 * @property {Exact} bound the largest value there is
 * @property {Exact} [lower] the least value there is: 0, the default, or below it
 * @property {Exact} [resolution] the step between values; by default that of the round
 * @property {Exact} [lifetime] the most that all reports of this device may cost together; by default
 *   as much as one report
 * @property {Storage} storage where reports are remembered
 * @property {string} [name] a fixed name for reports. By default a new one for every round, made from
 *   a key that never leaves the device: a round takes one report from it, and rounds cannot be linked
 * @property {boolean} [clamp] take values beyond the bounds for the bounds; otherwise they are an error
 * @property {Words} [words] words that are not random, only to simulate and with `VolatileStorage`
 */

const NUMBERS = ["epsilon", "lower", "bound", "resolution", "lifetime"];
const OPTIONS = [...NUMBERS, "storage", "name", "clamp", "words"];

/** One device. `await Client.open({ epsilon: 1, bound: 100, storage })`. */
export class Client {
  #own;
  #lifetime;
  #name;
  #clamp;
  #words;
  #memory;
  /** @type {Promise<unknown>} */
  #last = Promise.resolve();

  /** @param {ClientOptions} options */
  constructor(options) {
    refuseUnknown(options, OPTIONS);
    refuseWithoutCrypto();
    const { epsilon, bound, resolution, lifetime = epsilon, storage, name, words } = options;
    const own = {
      epsilon: positive("epsilon", epsilon),
      lower: notPositive("lower", options.lower ?? 0),
      bound: positive("bound", bound),
      resolution: resolution === undefined ? undefined : positive("resolution", resolution),
    };
    this.#lifetime = positive("lifetime", lifetime);
    if (this.#lifetime.compare(own.epsilon) < 0) {
      throw new SettingError("lifetime", `must not be less than epsilon ${own.epsilon}`);
    }
    // Refused now rather than in the first round.
    if (own.resolution !== undefined) new Lattice(own.bound, own.resolution, own.lower);
    this.#own = own;
    this.#name = name === undefined ? undefined : nameField({ name }, "name");
    this.#clamp = flag("clamp", options.clamp);
    if (typeof storage?.read !== "function" || typeof storage.append !== "function") {
      throw new SettingError("storage", "must have read and append; see VolatileStorage");
    }
    if (words !== undefined && !(storage instanceof VolatileStorage)) {
      throw new SettingError("words", "a simulated client needs VolatileStorage");
    }
    this.#words = words ?? secureWords();
    this.#memory = new Memory(storage);
  }

  /**
   * A client whose storage has been read: one that cannot be used is noticed here.
   *
   * @param {ClientOptions} options
   * @returns {Promise<Client>}
   */
  static async open(options) {
    const client = new Client(options);
    await client.#refreshed();
    return client;
  }

  /**
   * Answer the open round of a service's task, and send what waits for it.
   *
   * @param {string} url of the task: `https://host/v1/tasks/ID`
   * @param {number | bigint} value a number within the bounds
   * @param {{ event?: string } & DeliveryOptions} [options] `event`: as for `answer`; `token`: of a
   *   device; `patience`: for how many seconds to try again. A report that was drawn and did not arrive is
   *   "queued": it is sent when the network is back, or by the next call, the same one
   * @returns {Promise<Delivered>}
   * @throws {UnreachableError} the service is away; nothing was drawn
   * @throws {NotAskedError} nobody else is asked at the moment; nothing was drawn
   */
  async report(url, value, options = {}) {
    refuseUnknown(options, ["event", "token", "patience"]);
    const { event = "", ...delivery } = options;
    return reportTo(this, new Task(url, delivery), value, event);
  }

  /**
   * Send the reports of a task of which nobody has said that they arrived.
   *
   * @param {string} url of the task
   * @param {DeliveryOptions} [options]
   * @returns {Promise<Delivered[]>}
   */
  async deliver(url, options = {}) {
    refuseUnknown(options, ["token", "patience"]);
    return deliverTo(this, new Task(url, options));
  }

  /**
   * The report to send. It is remembered, in the storage, before this resolves.
   *
   * @param {unknown} announcement what the server asks: text as it came, or the object read from it
   * @param {number | bigint} value a number within the bounds
   * @param {{ event?: string, round?: string }} [options] `event`: what the value is called, such as a
   *   date. A value answers one round: the same event in another round is refused. Without a name, the
   *   device has one value. `round`: refuse an announcement of any other
   * @returns {Promise<Report>}
   * @throws {MessageError} the announcement is malformed or of another version
   * @throws {RefusedError} it asks for too much, or the round, the event or the lifetime is used up
   * @throws {InputError} the value is no number, or outside the bounds
   */
  async answer(announcement, value, options = {}) {
    refuseUnknown(options, ["event", "round"]);
    const { event = "", round } = options;
    const asked = Announcement.fromJson(announcement);
    if (round !== undefined && asked.round !== round) {
      throw new RefusedError("the announcement is of another round");
    }
    if (typeof event !== "string") throw new SettingError("event", "must be text");
    const digest = await digestOf(asked);
    return this.#oneAtATime(async () => {
      for (;;) {
        await this.#memory.refresh();
        const known = this.#memory.pin(asked.round);
        if (known) return again(known, digest);
        const lattice = checkAnnouncement(asked, this.#own);
        const names = await this.#namesFor(asked, event);
        this.#checkPast(asked, names.event);
        const pin = Object.freeze({
          round: asked.round,
          phase: asked.phase,
          slot: asked.slot,
          epsilon: asked.epsilon,
          digest,
          ...names,
          report: asked.question.answer(this.#steps(value, lattice), this.#words),
          time: new Date().toISOString().replace(/\.\d+Z$/, "Z"),
        });
        if (await this.#memory.add(pin)) return reportOf(pin);
        // Another tab or process added a record meanwhile; what was drawn is thrown away unseen.
      }
    });
  }

  /**
   * Of all announcements of a round the one to answer, where that goes by name.
   *
   * @param {Iterable<unknown>} announcements each as text, or the object read from it
   * @returns {Promise<Announcement>}
   * @throws {MessageError} one is malformed, or they are not all those of one round
   */
  async pick(announcements) {
    const asked = ofOneRound(announcements);
    const [{ round }] = asked;
    const client = await this.nameIn(round);
    return asked[await slotOf(round, client, asked.length)];
  }

  /**
   * What this device is called in the reports of a round.
   *
   * @param {string} round
   * @returns {Promise<string>}
   */
  async nameIn(round) {
    return this.#name ?? madeName(await this.#refreshed(), round);
  }

  /**
   * What was reported in a round, to send it again; undefined: nothing.
   *
   * @param {string} round
   * @returns {Promise<Report | undefined>}
   */
  async sent(round) {
    const pin = (await this.#refreshed()).pin(round);
    return pin && reportOf(pin);
  }

  /**
   * The reports of which nobody has said that they arrived, to send them again: after a page was
   * reloaded, or without a network. The same reports: sending one twice costs and tells nothing more.
   *
   * @returns {Promise<Report[]>}
   */
  async unacknowledged() {
    return (await this.#refreshed()).unacknowledged.map(reportOf);
  }

  /**
   * Remember that the report of a round arrived, or never will: the server has taken it, had it
   * already, or has closed the round.
   *
   * @param {string} round
   * @returns {Promise<void>}
   */
  async acknowledge(round) {
    await this.#oneAtATime(async () => {
      do await this.#memory.refresh();
      while (!(await this.#memory.acknowledge(round)));
    });
  }

  /**
   * Every report so far: when, in which round, at what cost.
   *
   * @returns {Promise<Pin[]>}
   */
  async ledger() {
    return (await this.#refreshed()).pins;
  }

  /**
   * How much of `lifetime` was not spent.
   *
   * @returns {Promise<Fraction>}
   */
  async left() {
    return this.#lifetime.minus((await this.#refreshed()).spent);
  }

  #refreshed() {
    return this.#oneAtATime(async () => {
      await this.#memory.refresh();
      return this.#memory;
    });
  }

  /**
   * Calls that wait for the storage must not overtake one another.
   *
   * @template Result
   * @param {() => Promise<Result>} action
   * @returns {Promise<Result>}
   */
  #oneAtATime(action) {
    const result = this.#last.then(action);
    this.#last = result.catch(() => {});
    return result;
  }

  /**
   * @param {Announcement} asked
   * @param {string} event
   */
  async #namesFor(asked, event) {
    const [digest, client] = await Promise.all([
      this.#memory.keyed("event", event),
      this.#name ?? madeName(this.#memory, asked.round),
    ]);
    return { event: digest, client };
  }

  /**
   * What the past of this device allows.
   *
   * @param {Announcement} asked
   * @param {string} event
   */
  #checkPast(asked, event) {
    if (this.#memory.knows(event)) {
      throw new RefusedError("this value was reported on in another round");
    }
    if (this.#memory.spent.plus(asked.epsilon).compare(this.#lifetime) > 0) {
      const left = this.#lifetime.minus(this.#memory.spent);
      throw new RefusedError(
        `this device has ${left} of its lifetime epsilon left; the round asks for ${asked.epsilon}`,
      );
    }
    this.#memory.check();
  }

  /**
   * The value in whole steps. Says that it is wrong, never what it is.
   *
   * @param {unknown} value
   * @param {Lattice} lattice
   */
  #steps(value, lattice) {
    const number = typeof value === "bigint" ? Number(value) : value;
    if (typeof number !== "number" || Number.isNaN(number)) {
      throw new InputError("the value is not a number: nothing was reported");
    }
    const { lower, bound } = this.#own;
    if (!this.#clamp && !(number >= lower.toNumber() && number <= bound.toNumber())) {
      throw new InputError(`the value is not between ${lower} and ${bound}: nothing was reported`);
    }
    return lattice.unit(number);
  }
}

/**
 * @param {Memory} memory
 * @param {string} round
 */
async function madeName(memory, round) {
  return (await memory.keyed("client", round)).slice(0, 32);
}

/**
 * @param {Pin} known
 * @param {string} digest
 */
function again(known, digest) {
  if (known.digest !== digest) {
    throw new RefusedError("this round was answered under another announcement");
  }
  return reportOf(known);
}

/** @param {Pin} pin */
function reportOf({ round, phase, epsilon, slot, client, report }) {
  return new Report({ round, phase, epsilon, slot, client, report });
}

/**
 * SHA-256 of all of it: by this a device knows an announcement again.
 *
 * @param {Announcement} asked
 */
async function digestOf(asked) {
  const bytes = new TextEncoder().encode(JSON.stringify(asked));
  return hexadecimal(await crypto.subtle.digest("SHA-256", bytes));
}
