/** Records in a folder: durable, private, exclusive; a process that is killed leaves all or nothing. */

import assert from "node:assert/strict";
import { spawn } from "node:child_process";
import { cp, link, mkdtemp, readdir, rename, rm, stat, writeFile } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { after, test } from "node:test";

import { Client, StorageError } from "../src/index.js";
import { FileStorage } from "../src/storage/file.js";
import { announcement } from "./announcements.js";

const root = await mkdtemp(join(tmpdir(), "tidegate-"));
after(() => rm(root, { recursive: true }));

const settings = { epsilon: 1, bound: 100, lifetime: 1000 };

test("a position is given once, and records come back in order", async () => {
  const storage = new FileStorage(join(root, "order"));
  for (let position = 0; position < 12; position += 1) {
    assert.equal(await storage.append(position, `${position}`), true);
  }
  assert.equal(await storage.append(3, "other"), false);
  assert.deepEqual(await storage.read(9), ["9", "10", "11"]);
  assert.deepEqual((await readdir(storage.folder)).filter((name) => name.includes("draft")), []);
});

test("of many that want a position, one gets it", async () => {
  const storages = Array.from({ length: 8 }, () => new FileStorage(join(root, "race")));
  const outcomes = await Promise.all(storages.map((storage, index) => storage.append(0, `${index}`)));
  assert.equal(outcomes.filter(Boolean).length, 1);
  assert.deepEqual(await storages[0].read(0), [`${outcomes.indexOf(true)}`]);
});

test("a folder stays where it was when the process goes elsewhere", async () => {
  const before = process.cwd();
  process.chdir(root);
  try {
    const storage = new FileStorage("relative");
    await storage.append(0, "a");
    process.chdir(tmpdir());
    await storage.append(1, "b");
    assert.deepEqual(await new FileStorage(join(root, "relative")).read(0), ["a", "b"]);
  } finally {
    process.chdir(before);
  }
});

test("files are private", { skip: process.platform === "win32" && "no modes there" }, async () => {
  const storage = new FileStorage(join(root, "private"));
  await storage.append(0, "a");
  assert.equal((await stat(storage.folder)).mode & 0o777, 0o700);
  assert.equal((await stat(join(storage.folder, "0.json"))).mode & 0o777, 0o600);
});

test("a missing record, or a folder that is none, stops a device", async () => {
  const storage = new FileStorage(join(root, "gap"));
  for (let position = 0; position < 3; position += 1) await storage.append(position, "a");
  await rm(join(storage.folder, "1.json"));
  await assert.rejects(storage.read(0), StorageError);
  await assert.rejects(storage.read(2), StorageError);
  await writeFile(join(root, "file"), "");
  const open = Client.open({ ...settings, storage: new FileStorage(join(root, "file")) });
  await assert.rejects(open, StorageError);
});

test("a folder that was copied, or put back, stops a device; one that was moved goes on", async () => {
  const folder = join(root, "device");
  const client = await Client.open({ ...settings, storage: new FileStorage(folder) });
  const question = announcement();
  const first = await client.answer(question, 17, { event: "first" });
  const backup = join(root, "backup");
  await cp(folder, backup, { recursive: true, preserveTimestamps: true });
  const refused = (place) => Client.open({ ...settings, storage: new FileStorage(place) });
  await assert.rejects(refused(backup), /is a copy/);
  const copied = new FileStorage(backup);
  await assert.rejects(copied.append(2, "x"), /is a copy/);

  await new FileStorage(folder).append(9, "later"); // what a backup lacks
  await rm(join(folder, "9.json"));
  await cp(join(backup, "head"), join(folder, "head"), { preserveTimestamps: true }); // over it
  await assert.rejects(refused(folder), /is a copy/);
  await rm(folder, { recursive: true });
  await cp(backup, folder, { recursive: true, preserveTimestamps: true });
  await assert.rejects(refused(folder), /is a copy/);

  // Whoever knows that the original is gone says so, once.
  const accepted = new FileStorage(folder, { moved: true });
  const again = await Client.open({ ...settings, storage: accepted });
  assert.deepEqual(await again.answer(question, 99, { event: "other" }), first);
  assert.ok(await Client.open({ ...settings, storage: new FileStorage(folder) }));
  assert.throws(() => new FileStorage(folder, { move: true }), /is no option/);

  const other = join(root, "moving");
  const moving = await Client.open({ ...settings, storage: new FileStorage(other) });
  const sent = await moving.answer(question, 17, { event: "first" });
  await rename(other, join(root, "moved"));
  const moved = await Client.open({ ...settings, storage: new FileStorage(join(root, "moved")) });
  assert.deepEqual(await moved.answer(question, 99, { event: "other" }), sent);
});

test("records that are gone, a second name and a damaged head stop a device", async () => {
  const folder = join(root, "headed");
  const storage = new FileStorage(folder);
  for (let position = 0; position < 3; position += 1) await storage.append(position, "a");
  await link(join(folder, "head"), join(root, "second"));
  await assert.rejects(storage.read(0), /second name/);
  await rm(join(root, "second"));
  assert.deepEqual(await storage.read(2), ["a"]);
  await rm(join(folder, "2.json")); // the newest: no gap tells it
  await assert.rejects(storage.read(0), /missing/);
  await writeFile(join(folder, "head"), "{}");
  await assert.rejects(storage.read(0), /damaged/);
});

test("a folder from before there were heads goes on, and gets one", async () => {
  const storage = new FileStorage(join(root, "older"));
  await storage.append(0, "a");
  await rm(join(storage.folder, "head"));
  assert.equal(await storage.append(1, "b"), true);
  assert.ok((await readdir(storage.folder)).includes("head"));
  assert.deepEqual(await storage.read(0), ["a", "b"]);
});

test("a client that is killed never sends two reports for a round", { timeout: 120_000 }, async () => {
  const folder = join(root, "killed");
  const sent = new Map();
  for (const lines of [1, 4, 9]) {
    for (const [round, report] of await reportsUntilKilled(folder, lines)) {
      assert.equal(sent.get(round) ?? report, report);
      sent.set(round, report);
    }
  }
  const client = await Client.open({ ...settings, storage: new FileStorage(folder) });
  const known = new Map((await client.ledger()).map((pin) => [pin.round, pin.report]));
  assert.ok(sent.size >= 9);
  for (const [round, report] of sent) assert.equal(known.get(round), report);
});

test("processes that share a folder agree on one report a round", { timeout: 120_000 }, async () => {
  const folder = join(root, "shared");
  const outputs = await Promise.all([1, 2, 3].map(() => reportsUntilKilled(folder, 12)));
  const sent = new Map();
  for (const [round, report] of outputs.flat()) {
    assert.equal(sent.get(round) ?? report, report);
    sent.set(round, report);
  }
  const client = await Client.open({ ...settings, storage: new FileStorage(folder) });
  assert.ok((await client.ledger()).length >= sent.size);
});

/** What a client in another process sent before it was killed after some lines of output. */
async function reportsUntilKilled(folder, lines) {
  const driver = new URL("kill_driver.js", import.meta.url).pathname;
  const child = spawn(process.execPath, [driver, folder, JSON.stringify(announcement())]);
  let output = "";
  for await (const chunk of child.stdout.setEncoding("utf8")) {
    output += chunk;
    if (output.split("\n").length > lines) child.kill("SIGKILL");
  }
  const whole = output.split("\n").slice(0, -1);
  assert.ok(whole.length >= lines);
  return whole.map((line) => JSON.parse(line));
}
