// Which keys are compared: boxes to tick, with a search where there are many.

import { get } from "./api.js";
import { element } from "./dom.js";

const MOST = 5; // keys side by side
const FEW = 12; // keys that need no search
const LISTED = 1000;

/** @param {string} name of the stream @returns {Promise<string[]>} the key that is shown first */
export async function offerKeys(name) {
  const { keys, next } = await get(`/v1/streams/${name}/keys`, { limit: LISTED });
  element("keys").replaceChildren(
    ...keys.map((/** @type {string} */ key, /** @type {number} */ at) => {
      const label = document.createElement("label");
      const box = document.createElement("input");
      box.type = "checkbox";
      box.value = key;
      box.checked = at === 0;
      label.append(box, ` ${key}`);
      return label;
    }),
  );
  const search = /** @type {HTMLInputElement} */ (element("find-key"));
  search.value = "";
  element("find-key-label").hidden = keys.length <= FEW;
  element("more-keys").hidden = !next;
  element("more-keys").textContent = `Only the first ${LISTED.toLocaleString("en")} keys are listed.`;
  return keys.slice(0, 1);
}

/** @param {(keys: string[]) => void} chosen */
export function listenToKeys(chosen) {
  const place = element("keys");
  const boxes = () => /** @type {HTMLInputElement[]} */ ([...place.querySelectorAll("input")]);
  place.addEventListener("change", (event) => {
    const ticked = boxes().filter((box) => box.checked);
    if (!ticked.length || ticked.length > MOST) {
      const box = /** @type {HTMLInputElement} */ (event.target);
      box.checked = !box.checked; // one at least, and no more than can be told apart
      return;
    }
    for (const box of boxes()) box.disabled = ticked.length === MOST && !box.checked;
    chosen(ticked.map((box) => box.value));
  });
  element("find-key").addEventListener("input", () => {
    const wanted = /** @type {HTMLInputElement} */ (element("find-key")).value.trim().toLowerCase();
    for (const box of boxes()) {
      const label = /** @type {HTMLElement} */ (box.parentElement);
      label.hidden = !box.checked && !box.value.toLowerCase().includes(wanted);
    }
  });
}
