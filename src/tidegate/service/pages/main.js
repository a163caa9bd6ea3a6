// The page: streams on the left, one of them in the middle, the budget below.

import { get, keepToken, Problem, token } from "./api.js";
import { createForm } from "./create.js";
import { element } from "./dom.js";
import { LedgerView } from "./ledger_view.js";
import { listStreams } from "./overview.js";
import { StreamView } from "./stream_view.js";
import { listTasks, TaskView } from "./tasks.js";

const EVERY = 2000; // milliseconds between two looks at the stream that is shown
const SELDOM = 5; // looks at it for one at the list and the ledger

const connection = element("connection");
const view = new StreamView((live) => connected({ live }), told);
const task = new TaskView();
const ledger = new LedgerView();
let mayReadLedger = false;
let looks = 0;

/** @param {string} text @param {boolean} [wrong] */
function say(text, wrong = false) {
  connection.textContent = text;
  connection.classList.toggle("wrong", wrong);
}

// Two things can fail apart: the live connection, and single requests.
/** @type {{live: boolean | null, answers: boolean}} */
const reached = { live: null, answers: true }; // null: not known yet

/** @param {{live?: boolean | null, answers?: boolean}} news */
function connected(news) {
  Object.assign(reached, news);
  const waiting = view.mayRead ? "Connecting …" : "Connected: facts and ledger"; // an auditor follows nothing
  const lost = reached.live === false || !reached.answers;
  say(lost ? "Connection lost. Trying again … What is shown may be old." : reached.live ? "Live" : waiting, lost);
  document.body.classList.toggle("stale", lost);
}

/** @param {unknown} error */
function told(error) {
  if (error instanceof Problem && (error.status === 401 || error.status === 403)) {
    element("sign-in").hidden = false;
    if (error.status === 401) welcome("sign in");
    say(error.status === 401 ? "Sign in with a token" : error.message, error.status === 403);
  } else {
    say(error instanceof Problem ? error.message : "The service does not answer", true);
  }
}

/** @param {string} name */
async function open(name) {
  task.close();
  mark({ name });
  await view.open(name);
}

/** @param {string} id */
async function openTask(id) {
  view.close();
  mark({ task: id });
  connected({ live: true }); // a task is looked at, not followed
  await task.open(id);
}

/** Show which of the lists' items is open. @param {{name?: string, task?: string}} chosen */
function mark({ name, task: id }) {
  for (const button of document.querySelectorAll("#streams button, #tasks button")) {
    const { name: ofStream, task: ofTask } = /** @type {HTMLElement} */ (button).dataset;
    button.setAttribute("aria-current", String(ofTask === undefined ? ofStream === name : ofTask === id));
  }
}

async function refresh() {
  if (mayReadLedger) await ledger.refresh();
  const streams = await listStreams(view.current?.name, (name) => open(name).catch(told), ledger.bySource);
  const tasks = await listTasks(task.current ?? undefined, (id) => openTask(id).catch(told));
  welcome(!streams.length && !tasks.length ? "empty" : "");
  return streams;
}

/** What a newcomer reads where nothing can be shown yet. @param {"" | "empty" | "sign in"} why */
function welcome(why) {
  element("welcome").hidden = !why;
  element("welcome-empty").hidden = why !== "empty";
  element("welcome-sign-in").hidden = why !== "sign in";
  document.querySelector("nav")?.toggleAttribute("hidden", why === "sign in");
}

async function begin() {
  try {
    const { role, may } = await get("/v1/session");
    element("sign-out").hidden = role === null;
    element("create").hidden = !may.includes("manage");
    mayReadLedger = may.includes("read ledger");
    view.mayRead = task.mayRead = may.includes("read");
    if (!may.includes("read facts")) {
      element("sign-in").hidden = false;
      welcome("sign in");
      const wrong = role === null ? "This token is not known" : `This token may not read: its role is ${role}`;
      say(token() === null ? "Sign in with a token" : wrong, token() !== null);
      return;
    }
    const streams = await refresh();
    element("sign-in").hidden = role !== null || may.includes("manage"); // who only reads may sign in
    say(streams.length ? "Connected" : "Connected. There is no stream yet.");
    if (!streams.length && may.includes("manage")) /** @type {HTMLDetailsElement} */ (element("create")).open = true;
    if (!view.current && !task.current && streams.length) await open(streams[0].name);
    if (!view.mayRead) connected({});
  } catch (error) {
    told(error);
  }
}

createForm(async (name) => {
  await refresh();
  await open(name);
});

element("sign-in").addEventListener("submit", (event) => {
  event.preventDefault();
  keepToken(/** @type {HTMLInputElement} */ (element("token")).value.trim());
  begin();
});

element("sign-out").addEventListener("click", () => {
  keepToken(null);
  location.reload();
});

setInterval(() => {
  if ((!view.current && !task.current) || document.hidden) return;
  looks += 1;
  Promise.resolve(task.current ? task.refresh() : view.facts())
    .then(() => view.moving())
    .then(() => (looks % SELDOM !== 1 ? undefined : refresh()))
    .then(() => connected({ answers: true }))
    .catch((error) => connected({ answers: error instanceof Problem }));
}, EVERY);
begin();
