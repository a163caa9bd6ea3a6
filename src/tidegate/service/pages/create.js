// The form that creates a stream, with what to expect of its settings.

import { post } from "./api.js";
import { element, field } from "./dom.js";
import { shown } from "./times.js";

const LENGTHS = [1, 100, 10_000];
const PAUSE = 400; // milliseconds after the last key

/** What the form asks for; an empty field is left out. */
function wanted() {
  const form = /** @type {HTMLFormElement} */ (element("create-form"));
  const given = Object.fromEntries([...new FormData(form)].map(([name, value]) => [name, String(value).trim()]));
  /** @type {Record<string, any>} */
  const asked = { name: given.name, epsilon: given.epsilon, bound: given.bound, settings: {} };
  if (Number(given.lower)) asked.settings.lower = given.lower;
  if (given.kind.includes("keyed")) asked.keys = given.keys.split("\n").map((key) => key.trim()).filter(Boolean);
  if (given.kind.includes("events")) {
    asked.events = { every: given.every, start: given.start };
    if (given.grace) asked.events.grace = given.grace;
  }
  return asked;
}

async function plan() {
  const place = element("plan");
  const asked = wanted();
  if (!asked.bound || !asked.epsilon || (asked.events && !asked.events.start)) {
    place.textContent = "Type the largest value to see what this ε gives.";
    return;
  }
  if (asked.keys?.length === 0) delete asked.keys;
  try {
    const found = await post("/v1/plan", { ...asked, name: "plan", lengths: LENGTHS });
    const heading = document.createElement("span");
    heading.textContent = `${found.guarantee}. If values reach the bound, expect of a sum, in 95 of 100 cases:`;
    const list = document.createElement("ul");
    for (const one of found.errors) {
      const line = document.createElement("li");
      line.textContent = `${shown(one.length)} ${one.length === 1 ? "row" : "rows"}: ± ${shown(1.96 * one.standard_error, 3)}`;
      list.append(line);
    }
    const more = document.createElement("span");
    const warmUp = found.warm_up ? [`The first ${shown(found.warm_up)} values are a warm-up.`] : [];
    more.textContent = [...warmUp, ...found.warnings].join(" ");
    place.replaceChildren(heading, list, more);
  } catch (error) {
    place.textContent = error instanceof Error ? error.message : "";
  }
}

/** @param {(name: string) => Promise<void>} created */
export function createForm(created) {
  const form = /** @type {HTMLFormElement} */ (element("create-form"));
  const slider = /** @type {HTMLInputElement} */ (element("slider"));
  let waiting = 0;
  const now = new Date();
  now.setUTCMinutes(0, 0, 0); // ticks that begin with the hour, unless something else is typed
  field("create-form", "start").defaultValue = now.toISOString().replace(":00.000Z", "Z");
  form.addEventListener("input", (event) => {
    if (event.target === slider) field("create-form", "epsilon").value = String(Number((10 ** Number(slider.value)).toPrecision(2)));
    if (event.target === field("create-form", "epsilon")) slider.value = String(Math.log10(Number(field("create-form", "epsilon").value) || 1));
    const kind = field("create-form", "kind").value;
    for (const part of form.querySelectorAll("div")) part.hidden = !kind.includes(part.className);
    clearTimeout(waiting);
    waiting = setTimeout(plan, PAUSE);
  });
  form.addEventListener("submit", async (event) => {
    event.preventDefault();
    const problem = element("create-problem");
    problem.textContent = "";
    try {
      const asked = wanted();
      await post("/v1/streams", asked);
      form.reset();
      form.dispatchEvent(new Event("input"));
      /** @type {HTMLDetailsElement} */ (element("create")).open = false;
      await created(asked.name);
    } catch (error) {
      problem.textContent = error instanceof Error ? error.message : "It was not created.";
    }
  });
}
