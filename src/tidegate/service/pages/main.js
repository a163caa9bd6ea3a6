// The page: streams on the left, one of them in the middle.

import { follow, get, keepToken, post, Problem, token } from "./api.js";
import { Chart } from "./chart.js";

const SHOWN = 5000; // rows that are fetched before live ones
const PARTS = 48; // means in the chart
const EVERY = 2000; // milliseconds between two looks at facts and means

/** @template {HTMLElement} T @param {string} id @returns {T} */
function element(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return /** @type {T} */ (found);
}

const connection = element("connection");
const chart = new Chart(element("chart"), picked);
/** @type {{name: string, facts: any, stop: AbortController} | null} */
let current = null;

/** @param {string} text @param {boolean} [wrong] */
function say(text, wrong = false) {
  connection.textContent = text;
  connection.classList.toggle("wrong", wrong);
}

// Two things can fail apart: the live connection, and single requests.
const reached = { live: false, answers: true };

/** @param {{live?: boolean, answers?: boolean}} news */
function connected(news) {
  Object.assign(reached, news);
  const lost = !reached.live || !reached.answers;
  say(lost ? "Connection lost. Trying again …" : "Live", lost);
}

/** @param {unknown} error */
function told(error) {
  if (error instanceof Problem && (error.status === 401 || error.status === 403)) {
    element("sign-in").hidden = false;
    say(error.status === 401 ? "Sign in with a token" : error.message, error.status === 403);
  } else {
    say(error instanceof Problem ? error.message : "The service does not answer", true);
  }
}

/** @param {number} number */
function shown(number) {
  return number.toLocaleString(undefined, { maximumSignificantDigits: 6 });
}

// -- streams ---------------------------------------------------------------------------------

async function refresh() {
  const streams = await get("/v1/streams");
  const list = element("streams");
  const items = streams.map((/** @type {any} */ stream) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    button.type = "button";
    button.textContent = stream.name;
    const small = document.createElement("small");
    small.textContent = stream.retired ? `retired; ${stream.guarantee}` : stream.guarantee;
    button.append(small);
    button.setAttribute("aria-current", String(current?.name === stream.name));
    button.addEventListener("click", () => open(stream.name).catch(told));
    item.append(button);
    return item;
  });
  list.replaceChildren(...items);
  element("no-streams").hidden = streams.length > 0;
  element("sign-in").hidden = true;
  return streams;
}

/** @param {string} name */
async function open(name) {
  current?.stop.abort();
  const stop = new AbortController();
  current = { name, facts: null, stop };
  chart.clear();
  element("answer").textContent = "";
  element("name").textContent = name;
  element("stream").hidden = false;
  for (const button of document.querySelectorAll("#streams button")) {
    button.setAttribute("aria-current", String(button.firstChild?.textContent === name));
  }
  await facts();
  const start = Math.max(0, current.facts.released - SHOWN);
  const page = await get(`/v1/streams/${name}/values`, { start, limit: SHOWN });
  if (stop.signal.aborted) return;
  for (const rows of page.rows) chart.add(rows);
  chart.draw();
  await means().catch(() => {});
  follow(
    `/v1/streams/${name}/live`,
    page.next,
    (rows) => chart.add(rows),
    (live) => connected({ live }),
    stop.signal,
  );
}

async function facts() {
  if (!current) return;
  const known = await get(`/v1/streams/${current.name}`);
  current.facts = known;
  const rows = [
    ["Guarantee", known.guarantee],
    ["Released rows", shown(known.released)],
    ["Cap θ", known.threshold === null ? "not chosen yet" : shown(known.threshold)],
    ["Warm-up", known.warming ? `${shown(known.warming)} more values` : "done"],
  ];
  element("facts").replaceChildren(
    ...rows.map(([name, value]) => {
      const row = document.createElement("div");
      const term = document.createElement("dt");
      const fact = document.createElement("dd");
      term.textContent = name;
      fact.textContent = value;
      row.append(term, fact);
      return row;
    }),
  );
}

/** Means over parts of what is shown. */
async function means() {
  if (!current || current.facts.released < PARTS || current.facts.threshold === null) return;
  const every = Math.ceil(current.facts.released / PARTS);
  const { columns } = await get(`/v1/streams/${current.name}/table`, { every });
  const sizes = columns.end.map((/** @type {number} */ end, /** @type {number} */ at) => end - columns.start[at]);
  const over = (/** @type {number[]} */ numbers) => numbers.map((number, at) => number / sizes[at]);
  // Only the parts that begin in the chart; the last one reaches to its end.
  const from = current.facts.released - chart.x.length;
  const parts = columns.start.map((/** @type {number} */ _, /** @type {number} */ at) => at).filter((/** @type {number} */ at) => columns.start[at] >= from);
  if (!parts.length) return;
  const pick = (/** @type {any[]} */ column) => parts.map((/** @type {number} */ at) => column[at]);
  const ended = (/** @type {number[]} */ numbers) => [...numbers, numbers[numbers.length - 1]];
  const x = [...pick(columns.start).map((/** @type {number} */ start) => chart.x[start - from]), chart.x[chart.x.length - 1]];
  chart.setMeans({
    x,
    middle: ended(pick(over(columns.estimate))),
    low: ended(pick(over(columns.low))),
    high: ended(pick(over(columns.high))),
  });
}

// -- ranges ----------------------------------------------------------------------------------

/** @param {number | string} from @param {number | string} to */
function picked(from, to) {
  const form = /** @type {HTMLFormElement} */ (element("range"));
  const [start, end] = [from, to].map((one) =>
    chart.timed ? new Date(String(one).replace(" ", "T") + (String(one).endsWith("Z") ? "" : "Z")).toISOString() : String(Math.round(Number(one))),
  );
  /** @type {HTMLInputElement} */ (form.elements.namedItem("from")).value = start;
  /** @type {HTMLInputElement} */ (form.elements.namedItem("to")).value = end;
  ask().catch(told);
}

async function ask() {
  if (!current) return;
  const form = new FormData(/** @type {HTMLFormElement} */ (element("range")));
  const [from, to] = [String(form.get("from")).trim(), String(form.get("to")).trim()];
  const positions = /^\d+$/.test(from) && /^\d+$/.test(to);
  const last = current.facts.released;
  /** @type {Record<string, string>} */
  const query = positions ? { start: from, end: String(Math.min(Number(to), last)) } : { from, to };
  const place = element("answer");
  try {
    const { sum } = await get(`/v1/streams/${current.name}/sum`, query);
    const rows = sum.end - sum.start;
    const mean = rows ? `; mean ${shown(sum.estimate / rows)}` : "";
    const warning = sum.warning ? ` Note: ${sum.warning}.` : "";
    place.textContent =
      `Sum of ${shown(rows)} rows: ${shown(sum.estimate)}, between ${shown(sum.low)} and ` +
      `${shown(sum.high)} with 95 % confidence${mean}.${warning}`;
  } catch (error) {
    place.textContent = error instanceof Error ? error.message : "No answer";
  }
}

// -- forms -----------------------------------------------------------------------------------

element("range").addEventListener("submit", (event) => {
  event.preventDefault();
  ask().catch(told);
});

element("create-form").addEventListener("submit", async (event) => {
  event.preventDefault();
  const form = /** @type {HTMLFormElement} */ (event.target);
  const given = Object.fromEntries(new FormData(form));
  const problem = element("create-problem");
  problem.textContent = "";
  try {
    const lower = String(given.lower).trim();
    const settings = Number(lower) ? { lower } : {};
    const { name, epsilon, bound } = given;
    await post("/v1/streams", { name, epsilon, bound, settings });
    form.reset();
    /** @type {HTMLDetailsElement} */ (element("create")).open = false;
    await refresh();
    await open(String(name));
  } catch (error) {
    problem.textContent = error instanceof Error ? error.message : "It was not created.";
  }
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

async function ledger() {
  const { sources } = await get("/v1/ledger");
  element("sources").replaceChildren(
    ...Object.entries(sources).map(([name, spent]) => {
      const row = document.createElement("tr");
      for (const text of [name, String(spent)]) {
        const cell = document.createElement("td");
        cell.textContent = text;
        row.append(cell);
      }
      return row;
    }),
  );
  element("ledger").hidden = Object.keys(sources).length === 0;
}

async function begin() {
  try {
    const { role, may } = await get("/v1/session");
    element("sign-out").hidden = role === null;
    element("create").hidden = !may.includes("manage");
    if (!may.includes("read")) {
      element("sign-in").hidden = false;
      say(token() === null ? "Sign in with a token" : "This token may not read", token() !== null);
      return;
    }
    const streams = await refresh();
    say("Connected");
    if (may.includes("read ledger")) await ledger();
    if (!current && streams.length) await open(streams[0].name);
  } catch (error) {
    told(error);
  }
}

setInterval(() => {
  if (!current || document.hidden) return;
  facts()
    .then(means)
    .then(() => connected({ answers: true }))
    .catch((error) => connected({ answers: error instanceof Problem }));
}, EVERY);
begin();
