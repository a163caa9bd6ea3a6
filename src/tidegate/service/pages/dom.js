// Small helpers for the elements of the page.

/** @template {HTMLElement} T @param {string} id @returns {T} */
export function element(id) {
  const found = document.getElementById(id);
  if (!found) throw new Error(`no element ${id}`);
  return /** @type {T} */ (found);
}

/** @param {string} form @param {string} name @returns {HTMLInputElement} */
export function field(form, name) {
  const found = /** @type {HTMLFormElement} */ (element(form)).elements.namedItem(name);
  return /** @type {HTMLInputElement} */ (found);
}

/** Public facts as a list. @param {string} place @param {string[][]} pairs */
export function facts(place, pairs) {
  element(place).replaceChildren(
    ...pairs.map(([name, value]) => {
      const pair = document.createElement("div");
      const term = document.createElement("dt");
      const fact = document.createElement("dd");
      term.textContent = name;
      fact.textContent = value;
      pair.append(term, fact);
      return pair;
    }),
  );
}

/** A row of a table. @param {(string | Node)[]} cells */
export function row(cells) {
  const made = document.createElement("tr");
  for (const content of cells) {
    const cell = document.createElement("td");
    cell.append(content);
    made.append(cell);
  }
  return made;
}
