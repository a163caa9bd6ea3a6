/** What the vectors do not show: concurrency, persistence, settings, and what errors say. */

import assert from "node:assert/strict";
import { test } from "node:test";
import { inspect } from "node:util";

import { exact } from "../src/fraction.js";
import {
  Client,
  Fraction,
  IndexedDBStorage,
  Report,
  SettingError,
  StorageError,
  VolatileStorage,
} from "../src/index.js";
import { FileStorage } from "../src/storage/file.js";
import { announcement } from "./announcements.js";

const settings = { epsilon: 1, bound: 100, lifetime: 10 };

function opened(options = {}) {
  return Client.open({ ...settings, storage: new VolatileStorage(), ...options });
}

/** A storage that says when it is written to, and can fail. */
class Watched extends VolatileStorage {
  events = [];
  failing = false;

  async append(position, record) {
    if (this.failing) throw new StorageError("full");
    const appended = await super.append(position, record);
    this.events.push(`kept ${position}`);
    return appended;
  }
}

test("a report is kept before it is handed out", async () => {
  const storage = new Watched();
  const client = await opened({ storage });
  await client.answer(announcement(), 5).then(() => storage.events.push("handed out"));
  assert.deepEqual(storage.events, ["kept 0", "kept 1", "handed out"]);
});

test("nothing is handed out if it cannot be kept, and the round can be answered later", async () => {
  const storage = new Watched();
  const client = await opened({ storage });
  storage.failing = true;
  await assert.rejects(client.answer(announcement(), 5), StorageError);
  assert.deepEqual([await client.ledger(), `${await client.left()}`], [[], "10"]);
  storage.failing = false;
  await client.answer(announcement(), 5);
  assert.equal(`${await client.left()}`, "9");
});

test("a client that is opened again sends the same report", async () => {
  const storage = new VolatileStorage();
  const report = await (await opened({ storage })).answer(announcement(), 5);
  const later = await opened({ storage });
  assert.deepEqual(await later.answer(announcement(), 80), report);
  assert.deepEqual(await later.sent("r1"), report);
  assert.equal(await later.sent("r2"), undefined);
});

test("answers at one time give one report a round, also from two clients on one storage", async () => {
  const storage = new VolatileStorage();
  const [first, second] = [await opened({ storage }), await opened({ storage })];
  const rounds = Array.from({ length: 60 }, (_, index) => `r${index % 6}`);
  const reports = await Promise.all(
    rounds.map((round, index) =>
      (index % 2 ? first : second).answer(announcement({ round }), 5, { event: round }),
    ),
  );
  for (const report of reports) assert.deepEqual(report, await first.sent(report.round));
  assert.equal((await second.ledger()).length, 6);
});

test("two clients on one storage do not overspend its lifetime", async () => {
  const storage = new VolatileStorage();
  const clients = [await opened({ storage }), await opened({ storage })];
  const outcomes = await Promise.allSettled(
    Array.from({ length: 30 }, (_, index) =>
      clients[index % 2].answer(announcement({ round: `r${index}` }), 5, { event: `${index}` }),
    ),
  );
  assert.equal(outcomes.filter(({ status }) => status === "fulfilled").length, 10);
  assert.equal(`${await clients[0].left()}`, "0");
});

test("rounds are reported under names that cannot be linked, unless a name is set", async () => {
  const client = await opened();
  const names = [];
  for (const round of ["r1", "r2"]) {
    names.push((await client.answer(announcement({ round }), 5, { event: round })).client);
  }
  assert.match(names[0], /^[0-9a-f]{32}$/);
  assert.notEqual(names[0], names[1]);
  const named = await opened({ name: "meter-7" });
  assert.equal((await named.answer(announcement(), 5)).client, "meter-7");
});

test("a report goes over the wire as it is", async () => {
  const report = await (await opened()).answer(JSON.stringify(announcement()), 5n);
  const text = JSON.stringify(report);
  assert.deepEqual(Report.fromJson(text), report);
  assert.deepEqual(Object.keys(JSON.parse(text)), [
    ...["tidegate", "kind", "round", "phase", "epsilon", "slot", "client", "report"],
  ]);
});

test("a message beyond all measure is refused unread", async () => {
  const client = await opened();
  const long = announcement({ round: "x".repeat(2 ** 18) });
  for (const message of [long, JSON.stringify(long)]) {
    await assert.rejects(client.answer(message, 5), {
      ...{ name: "MessageError", message: "announcement: longer than 262144 characters" },
    });
  }
  for (const message of [undefined, null, 5n, () => 1, Symbol("s")]) {
    await assert.rejects(client.answer(message, 5), { name: "MessageError" });
  }
  assert.deepEqual(await client.ledger(), []);
});

test("wrong settings are named", async () => {
  const wrong = {
    epsilon: [0, -1, NaN, "", "a", null, undefined, {}, "1/0"],
    bound: [0, Infinity, "1e9999"],
    resolution: [0, 101, "1/100000000000000000"],
    lifetime: [0, 0.5, Infinity, null],
    name: ["", "a b", 7],
    storage: [undefined, {}, null],
    words: [() => 1],
    clamp: ["yes", 1, null],
    lifetme: [10],
    Epsilon: [1],
  };
  const { append, read } = new VolatileStorage();
  for (const [setting, values] of Object.entries(wrong)) {
    for (const value of values) {
      const storage = { append, read };
      const open = Client.open({ ...settings, storage, [setting]: value });
      await assert.rejects(open, (error) => {
        assert.ok(error instanceof SettingError, `${setting} ${value}: ${error}`);
        assert.equal(error.setting, setting);
        return true;
      });
    }
  }
});

test("an option of an answer that is mistyped is refused", async () => {
  const client = await opened();
  const mistyped = client.answer(announcement(), 5, { evnt: "monday" });
  await assert.rejects(mistyped, { name: "SettingError", setting: "evnt" });
  assert.deepEqual(await client.ledger(), []);
});

test("without Web Crypto, as on a page without HTTPS, it says so", async () => {
  const real = Object.getOwnPropertyDescriptor(globalThis, "crypto");
  for (const value of [undefined, { getRandomValues: () => {} }]) {
    Object.defineProperty(globalThis, "crypto", { value, configurable: true });
    try {
      await assert.rejects(opened(), { name: "RefusedError", message: /HTTPS/ });
    } finally {
      Object.defineProperty(globalThis, "crypto", real);
    }
  }
});

test("of endless announcements a few are read", async () => {
  let taken = 0;
  function* endless() {
    for (;;) yield announcement({ slot: taken++ });
  }
  const client = await opened();
  await assert.rejects(client.pick(endless()), { name: "MessageError", message: /at most 256/ });
  assert.equal(taken, 257);
});

test("a table with too many cells is refused", async () => {
  const [weights, outputs] = [Array(200).fill(Array(200).fill(1)), Array(200).fill(0)];
  const question = { form: "value", threshold: 10, weights, outputs };
  const asked = (await opened()).answer(announcement({ question }), 5);
  await assert.rejects(asked, { name: "MessageError", message: /at most 32768 cells/ });
});

test("a storage that keeps keys keeps the device's, and no record has it", async () => {
  class Keeping extends VolatileStorage {
    #made;
    key() {
      const kind = { name: "HMAC", hash: "SHA-256" };
      return (this.#made ??= crypto.subtle.generateKey(kind, false, ["sign"]));
    }
  }
  const storage = new Keeping();
  const name = await (await opened({ storage })).nameIn("r1");
  assert.equal(await (await opened({ storage })).nameIn("r1"), name);
  const [head] = await storage.read(0);
  assert.doesNotMatch(head, /[0-9a-f]{64}/);
  const copied = new VolatileStorage(); // the records alone are no device
  await copied.append(0, head);
  await assert.rejects(opened({ storage: copied }), StorageError);
});

test("numbers are taken as they are written: 0.1 ten times is 1", async () => {
  const client = await opened({ epsilon: 0.1, lifetime: 1 });
  const question = { form: "tail", level: 20, dither: 1, lie: 2 ** 31 };
  for (let round = 0; round < 10; round += 1) {
    const asked = announcement({ round: `r${round}`, epsilon: "1/10", question });
    await client.answer(asked, 5, { event: `${round}` });
  }
  assert.equal(`${await client.left()}`, "0");
});

test("damaged records stop a device", async () => {
  const [head, pin] = await records();
  const wrong = [
    JSON.stringify({ ...pin, epsilon: "9".repeat(10 ** 6) }),
    JSON.stringify({ ...pin, time: "x".repeat(2000) }),
    JSON.stringify({ ...pin, report: -1 }),
    JSON.stringify({ ...pin, slot: 1e300 }),
    JSON.stringify({ ...head, key: "in the storage" }),
    JSON.stringify(pin).padEnd(2000),
  ];
  for (const record of ["", "{", "null", "{}", '{"round":"r1"}', ...wrong]) {
    for (const position of [0, 1]) {
      const storage = new VolatileStorage();
      if (position === 1) await opened({ storage });
      await storage.append(position, record);
      await assert.rejects(opened({ storage }), StorageError);
    }
  }
});

/** The records of a device that has answered once, read. */
async function records() {
  const storage = new VolatileStorage();
  await (await opened({ storage })).answer(announcement(), 5);
  return (await storage.read(0)).map((record) => JSON.parse(record));
}

test("no error and no record carries the value", async () => {
  const storage = new VolatileStorage();
  const client = await opened({ storage });
  const value = 123456.789;
  await assert.rejects(client.answer(announcement(), value), (error) => {
    assert.doesNotMatch(inspect(error), /123456/);
    return true;
  });
  const clamping = await opened({ storage, clamp: true });
  await clamping.answer(announcement(), value, { event: "secret name" });
  // Keys and digests look like any number once in a while; a value never has 32 digits.
  const shown = ((await storage.read(0)).join() + inspect(clamping)).replace(/[0-9a-f]{32,}/g, "");
  assert.match(shown, /"round":"/);
  assert.doesNotMatch(shown, /123456|secret/);
});

test("a device answers 4096 rounds at most, however cheap", async () => {
  const storage = new VolatileStorage();
  const client = await opened({ storage });
  await client.answer(announcement(), 5);
  const pin = JSON.parse((await storage.read(1))[0]);
  for (let index = 2; index <= 4096; index += 1) {
    const record = { ...pin, round: `r${index}`, event: `${index}`, epsilon: "1/100000000" };
    await storage.append(index, JSON.stringify(record));
  }
  const asked = client.answer(announcement({ round: "more" }), 5, { event: "more" });
  await assert.rejects(asked, { name: "RefusedError", message: /4096 rounds/ });
});

test("a server cannot make the sum of costs ever longer, and it is rounded up", async () => {
  const storage = new VolatileStorage();
  const client = await opened({ storage });
  const question = { form: "tail", level: 20, dither: 1, lie: 2 ** 31 };
  const parts = ["1/999999999999999989", "1/999999999999999967", "1/999999999999999877"];
  for (const [index, epsilon] of parts.entries()) {
    const asked = announcement({ round: `r${index}`, epsilon, question });
    await client.answer(asked, 5, { event: `${index}` });
  }
  const left = await client.left();
  assert.ok(left.denominator <= 10n ** 36n);
  const spent = new Fraction(10n).minus(left);
  const sum = parts.map((part) => exact("part", part)).reduce((one, other) => one.plus(other));
  assert.ok(spent.compare(sum) > 0);
  assert.ok(spent.minus(sum).compare(new Fraction(1n, 10n ** 36n)) < 0);
});

test("after a reload, reports that nobody acknowledged are sent again, the same ones", async () => {
  const storage = new VolatileStorage();
  const page = await opened({ storage });
  const first = await page.answer(announcement(), 5, { event: "a" });
  const second = await page.answer(announcement({ round: "r2" }), 6, { event: "b" });
  await page.acknowledge("r1");
  await page.acknowledge("r1"); // once more: nothing happens
  const reloaded = await opened({ storage });
  assert.deepEqual(await reloaded.unacknowledged(), [second]);
  assert.deepEqual(await reloaded.sent("r1"), first);
  assert.deepEqual(await reloaded.answer(announcement({ round: "r2" }), 99, { event: "b" }), second);
  await reloaded.acknowledge("r2");
  assert.deepEqual(await page.unacknowledged(), []); // the other tab sees it
  await page.answer(announcement({ round: "r3" }), 7, { event: "c" });
  assert.equal((await reloaded.unacknowledged()).length, 1);
  assert.equal((await reloaded.ledger()).length, 3);
  await assert.rejects(page.acknowledge("r9"), { name: "RefusedError" });
});

test("tabs that acknowledge and answer at one time lose nothing", async () => {
  const storage = new VolatileStorage();
  const [one, other] = [await opened({ storage }), await opened({ storage })];
  const rounds = ["r1", "r2", "r3", "r4", "r5"];
  for (const round of rounds) await one.answer(announcement({ round }), 5, { event: round });
  await Promise.all(
    rounds.flatMap((round) => [one.acknowledge(round), other.acknowledge(round)]).concat([
      other.answer(announcement({ round: "r6" }), 5, { event: "r6" }),
    ]),
  );
  const later = await opened({ storage });
  assert.deepEqual((await later.unacknowledged()).map(({ round }) => round), ["r6"]);
});

test("an acknowledgement of what was never reported is a damaged record", async () => {
  const storage = new VolatileStorage();
  await opened({ storage });
  await storage.append(1, JSON.stringify({ acknowledged: "r1" }));
  await assert.rejects(opened({ storage }), StorageError);
});

test("values below 0 need a lower bound", async () => {
  await assert.rejects(opened({ lower: 1 }), { name: "SettingError", setting: "lower" });
  const client = await opened({ lower: "-5/2" });
  await assert.rejects(client.answer(announcement(), -3), { name: "InputError" });
  await client.answer(announcement(), -2.5);
  const clamping = await opened({ lower: -2, clamp: true });
  await clamping.answer(announcement(), -1e300);
});

test("arguments that are missing or of another kind are named, not a raw TypeError", async () => {
  for (const options of [undefined, null, "epsilon"]) {
    await assert.rejects(Client.open(options), { name: "SettingError", setting: "options" });
  }
  const client = await opened();
  const wrong = client.answer(announcement(), 5, "monday");
  await assert.rejects(wrong, { name: "SettingError", setting: "options" });
  assert.throws(() => new FileStorage({ folder: "x" }), { name: "SettingError", setting: "folder" });
  assert.throws(() => new FileStorage(), { name: "SettingError", setting: "folder" });
  const shared = { name: "SettingError", setting: "name" };
  assert.throws(() => new IndexedDBStorage({ name: "x" }), shared);
});
