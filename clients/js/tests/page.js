/**
 * Devices in a real browser. What this page does is in its address:
 *
 *     ?vectors                               meet the vectors here too
 *     ?crowd=500                             so many devices, with one value each
 *     ?storage=indexeddb&rounds=5&visits=2   one device that answers rounds, and again after a reload
 *     ?storage=indexeddb&rounds=5&tabs=4     the same device in frames, all at one time
 *
 * It asks the server that it came from for announcements, sends reports there, and says in the end
 * how it went. The server sees reports only. Run by tests/local/test_js_browser.py.
 */

import { Client, IndexedDBStorage, LocalStorage, VolatileStorage } from "../src/index.js";
import { mismatches } from "./mismatches.js";

const wanted = new URLSearchParams(location.search);
const storages = { indexeddb: IndexedDBStorage, local: LocalStorage };

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
async function device(storage, rounds) {
  const client = await Client.open({ epsilon: 1, bound: 100, lifetime: 100, storage });
  for (let index = 0; index < rounds; index += 1) {
    const [round, value] = [`r${index}`, Math.floor(Math.random() * 101)];
    await send("/reports", await client.answer(await asked(round), value, { event: round }));
  }
  return { ledger: (await client.ledger()).length, left: `${await client.left()}` };
}

async function tabs(count) {
  const inFrame = new URLSearchParams({ ...Object.fromEntries(wanted), frame: "1" });
  inFrame.delete("tabs");
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
  if (wanted.has("tabs")) return tabs(Number(wanted.get("tabs")));
  if (wanted.has("crowd")) return crowd(Number(wanted.get("crowd")));
  return device(new storages[wanted.get("storage")]("device"), Number(wanted.get("rounds")));
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
