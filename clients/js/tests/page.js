/**
 * Devices in a real browser. What this page does is in its address:
 *
 *     ?vectors                               meet the vectors here too
 *     ?crowd=500                             so many devices, with one value each
 *     ?device&rounds=5&visits=2              one device that answers rounds, and again after a reload
 *     ?device&rounds=5&frames=4              the same device in frames, all at one time
 *     ?device&rounds=5&tabs=2                the same in tabs, which wait for each other in every round
 *     ?device&rounds=5&storage=NAME          with another storage of the library
 *
 * It asks the server that it came from for announcements, sends reports there, and says in the end
 * how it went. The server sees reports only. Run by tests/local/test_js_browser.py.
 */

import * as library from "../src/index.js";
import { mismatches } from "./mismatches.js";

const { Client, VolatileStorage } = library;
const wanted = new URLSearchParams(location.search);

// A browser may ask its user, or decide by itself; the page has to ask.
let persistence = 0;
const { persist } = StorageManager.prototype;
StorageManager.prototype.persist = function () {
  persistence += 1;
  return persist.call(this);
};

async function asked(round) {
  return (await fetch(`/announcement?round=${round}`)).text();
}

async function send(path, content) {
  const response = await fetch(path, { method: "POST", body: JSON.stringify(content) });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
}

async function vectors() {
  return mismatches(await (await fetch("../vectors.json")).json());
}

/** What the devices measure is 0, 1, …, 100 and again. */
async function crowd(count) {
  for (let index = 0; index < count; index += 1) {
    const client = await Client.open({ epsilon: 1, bound: 100, storage: new VolatileStorage() });
    await send("/reports", await client.answer(await asked("open"), index % 101));
  }
  return { devices: count };
}

/** At every visit the values are others, and the reports must not be. */
async function device(rounds) {
  const storage = new library[wanted.get("storage") ?? "IndexedDBStorage"]("device");
  const client = await Client.open({ epsilon: 1, bound: 100, lifetime: 1000, storage });
  const met = wanted.has("tabs") ? meeting() : async () => {};
  for (let index = 0; index < rounds; index += 1) {
    const [round, value] = [`r${index}`, Math.floor(Math.random() * 101)];
    const text = await asked(round);
    await met(index);
    await send("/reports", await client.answer(text, value, { event: round }));
  }
  const left = `${await client.left()}`;
  return { ledger: (await client.ledger()).length, left, ...(await kept(storage)) };
}

/** What of the device a script could carry away, and whether the browser was asked to keep it. */
async function kept(storage) {
  const key = await storage.key();
  const exported = await crypto.subtle.exportKey("raw", key).catch((error) => error.name);
  const secret = (await storage.read(0)).some((record) => /"key":"[0-9a-f]{64}"/.test(record));
  return { exported, secret, asked: persistence, persisted: typeof (await storage.persisted()) };
}

/**
 * Resolves for a round when all tabs have come to it: they answer at the same moment. The first tab
 * opens the others, without a link to them, so that they are processes of their own.
 */
function meeting() {
  const [count, tab] = ["tabs", "tab"].map((name) => Number(wanted.get(name)));
  for (let other = 1; tab === 0 && other < count; other += 1) {
    const address = new URLSearchParams({ ...Object.fromEntries(wanted), tab: `${other}` });
    open(`page.html?${address}`, "_blank", "noopener");
  }
  const channel = new BroadcastChannel("rounds");
  const reached = Array(count).fill(-1);
  let changed = () => {};
  channel.onmessage = ({ data: [other, round] }) => {
    if (round > reached[other]) reached[other] = round;
    else return;
    if (round < reached[tab] || reached[tab] === 0) channel.postMessage([tab, reached[tab]]);
    changed();
  };
  return async (round) => {
    reached[tab] = round;
    channel.postMessage([tab, round]);
    while (reached.some((other) => other < round)) {
      await new Promise((resolve) => (changed = resolve));
    }
  };
}

async function frames(count) {
  const inFrame = new URLSearchParams({ ...Object.fromEntries(wanted), frame: "1" });
  inFrame.delete("frames");
  const results = [];
  const finished = new Promise((resolve) => {
    addEventListener("message", ({ data }) => {
      if (results.push(data) === count) resolve(results);
    });
  });
  for (let index = 0; index < count; index += 1) {
    const frame = document.createElement("iframe");
    frame.src = `page.html?${inFrame}`;
    document.body.append(frame);
  }
  return finished;
}

async function work() {
  if (wanted.has("vectors")) return vectors();
  if (wanted.has("frames")) return frames(Number(wanted.get("frames")));
  if (wanted.has("crowd")) return crowd(Number(wanted.get("crowd")));
  return device(Number(wanted.get("rounds")));
}

const result = await work().catch((error) => ({ error: `${error}` }));
document.getElementById("state").textContent = JSON.stringify(result);
const visits = Number(wanted.get("visits"));
if (wanted.has("frame")) {
  parent.postMessage(result, location.origin);
} else if (visits > 1 && !result.error) {
  wanted.set("visits", `${visits - 1}`);
  location.search = `${wanted}`;
} else {
  await send("/done", result);
}
