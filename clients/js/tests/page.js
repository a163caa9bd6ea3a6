/**
 * Devices in a real browser. What this page does is in its address:
 *
 *     ?crowd=500                   so many devices, each with a storage of its own, one value each
 *     ?storage=indexeddb&rounds=5  one device that answers rounds, and again at the next visit
 *     ?tabs=4&storage=…&rounds=5   the same device in frames, all at one time
 *
 * It asks the server that it came from for announcements, sends reports there, and says in the end
 * how it went. The server sees reports only.
 */

import { Client, IndexedDBStorage, LocalStorage, VolatileStorage } from "../src/index.js";

const wanted = new URLSearchParams(location.search);
const storages = { indexeddb: IndexedDBStorage, local: LocalStorage };

/** An announcement for the device at this position. */
async function asked(round, position) {
  const response = await fetch(`/announcement?round=${round}&position=${position}`);
  return response.text();
}

async function send(path, content) {
  const response = await fetch(path, { method: "POST", body: JSON.stringify(content) });
  if (!response.ok) throw new Error(`${path}: ${response.status} ${await response.text()}`);
}

async function crowd(count) {
  for (let position = 0; position < count; position += 1) {
    const storage = new VolatileStorage();
    const client = await Client.open({ epsilon: 1, bound: 100, storage });
    // What the devices measure: 0, 1, …, 100 and again.
    await send("/reports", await client.answer(await asked("crowd", position), position % 101));
  }
  return { devices: count };
}

async function device(storage, rounds) {
  const client = await Client.open({ epsilon: 1, bound: 100, lifetime: 100, storage });
  for (let index = 0; index < rounds; index += 1) {
    // At the next visit the value is another, and the report must not be.
    const value = Math.floor(Math.random() * 101);
    const round = `r${index}`;
    await send("/reports", await client.answer(await asked(round, index), value, { event: round }));
  }
  return { ledger: (await client.ledger()).length, left: `${await client.left()}` };
}

async function tabs(count) {
  const inFrame = new URLSearchParams({ ...Object.fromEntries(wanted), frame: "1" });
  inFrame.delete("tabs");
  const frames = Array.from({ length: count }, () => document.createElement("iframe"));
  const finished = new Promise((resolve) => {
    const results = [];
    addEventListener("message", ({ data }) => {
      if (results.push(data) === count) resolve(results);
    });
  });
  for (const frame of frames) {
    frame.src = `page.html?${inFrame}`;
    document.body.append(frame);
  }
  return finished;
}

async function work() {
  if (wanted.has("tabs")) return tabs(Number(wanted.get("tabs")));
  if (wanted.has("crowd")) return crowd(Number(wanted.get("crowd")));
  return device(new storages[wanted.get("storage")]("device"), Number(wanted.get("rounds")));
}

const result = await work().catch((error) => ({ error: `${error}` }));
if (wanted.has("frame")) parent.postMessage(result, location.origin);
else await send("/done", result);
document.getElementById("state").textContent = JSON.stringify(result);
