/** The vectors of tools/local_vectors.py: this client must do what Python does, bit for bit. */

import assert from "node:assert/strict";
import { readFileSync } from "node:fs";
import { test } from "node:test";

import { exponentialBounds } from "../src/exponential.js";
import { exact } from "../src/fraction.js";
import {
  Announcement,
  Client,
  questionFromPlain,
  RefusedError,
  VolatileStorage,
} from "../src/index.js";
import { Lattice } from "../src/lattice.js";
import { Memory } from "../src/memory.js";
import { slotOf } from "../src/slots.js";

const vectors = JSON.parse(readFileSync(new URL("../vectors.json", import.meta.url), "utf8"));

/** Text such as "nan" stands for a number that JSON does not have. */
function valueOf(written) {
  return { nan: NaN, inf: Infinity, "-inf": -Infinity }[written] ?? written;
}

for (const { question: plain, cases } of vectors.answers) {
  test(`answers to a ${plain.form} question`, () => {
    const question = questionFromPlain(plain);
    assert.ok(cases.length > 50);
    for (const [value, words, report] of cases) {
      const left = [...words];
      assert.equal(question.answer(value, () => left.shift()), report);
      assert.deepEqual(left, [], "all words are used");
    }
  });
}

test("questions are written as they were read", () => {
  for (const { question: plain } of vectors.answers) {
    assert.deepEqual(JSON.parse(JSON.stringify(questionFromPlain(plain))), plain);
  }
});

test("the loss is decided alike", () => {
  assert.deepEqual(new Set(vectors.loss.map((each) => each.allowed)), new Set([true, false]));
  for (const { question: plain, epsilon, allowed } of vectors.loss) {
    const check = () => questionFromPlain(plain).check(exact("epsilon", epsilon));
    if (allowed) check();
    else assert.throws(check, RefusedError);
  }
});

test("bounds of the exponential", () => {
  for (const [numerator, denominator, bits, low, high] of vectors.exponential) {
    assert.deepEqual(
      exponentialBounds(BigInt(numerator), BigInt(denominator), bits),
      [BigInt(low), BigInt(high)],
    );
  }
});

test("values to steps", () => {
  for (const { values, units, ...settings } of vectors.lattice) {
    const [bound, resolution, lower] = ["bound", "resolution", "lower"].map((name) =>
      exact(name, settings[name]),
    );
    const lattice = new Lattice(bound, resolution, lower);
    assert.deepEqual(values.map((value) => lattice.unit(valueOf(value))), units);
  }
});

test("announcements are refused in the same words", () => {
  for (const { text, error, reason } of vectors.messages) {
    if (error === null) Announcement.fromJson(text);
    else {
      const expected = { name: "MessageError", message: plainly(error), reason };
      assert.throws(() => Announcement.fromJson(text), plainError(expected), text);
    }
  }
});

/** Only Python's reader knows NaN as something of its own. */
function plainly(error) {
  return error.replace("NaN and Infinity are no JSON", "not JSON");
}

function plainError(expected) {
  return (error) => {
    const { name, message, reason } = error;
    assert.deepEqual({ name, message, reason }, expected);
    return true;
  };
}

test("names are made alike from a device's key", async () => {
  for (const [key, purpose, text, name] of vectors.names) {
    const storage = new VolatileStorage();
    await storage.append(0, JSON.stringify({ tidegate: 1, kind: "memory", key }));
    const memory = new Memory(storage);
    await memory.refresh();
    assert.equal(await memory.keyed(purpose, text), name);
  }
});

test("slots go by names alike", async () => {
  for (const [round, client, slots, slot] of vectors.slots) {
    assert.equal(await slotOf(round, client, slots), slot);
  }
});

test("of the announcements of a round the same one is picked", async () => {
  assert.deepEqual(new Set(vectors.picks.map(({ outcome }) => typeof outcome)).size, 2);
  for (const { name, announcements, outcome } of vectors.picks) {
    const client = await Client.open({ epsilon: 1, bound: 100, name, storage: new VolatileStorage() });
    const picked = client.pick(announcements);
    if (typeof outcome === "number") assert.equal((await picked).slot, outcome);
    else await assert.rejects(picked, { name: "MessageError", message: outcome });
  }
});

for (const [index, { settings, steps }] of vectors.clients.entries()) {
  test(`life of client ${index + 1}`, async () => {
    const client = await Client.open({ ...settings, storage: new VolatileStorage() });
    for (const step of steps) {
      const before = await client.ledger();
      const outcome = await asked(client, step, before);
      assert.deepEqual([outcome, `${await client.left()}`], [step.outcome, step.left]);
      const grown = outcome === "new" ? 1 : 0;
      assert.equal((await client.ledger()).length, before.length + grown);
    }
  });
}

async function asked(client, { announcement, value, event }, ledger) {
  try {
    const report = await client.answer(announcement, valueOf(value), { event });
    const known = ledger.find((pin) => pin.round === report.round);
    if (known) assert.deepEqual([report.client, report.report], [known.client, known.report]);
    return known ? "again" : "new";
  } catch (error) {
    return [error.name, error.message];
  }
}
