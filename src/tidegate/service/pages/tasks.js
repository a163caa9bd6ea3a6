// Tasks of devices: who was asked, what was reported, and means by round with their intervals.

import { get } from "./api.js";
import { Chart } from "./chart.js";
import { element, facts, row } from "./dom.js";
import { said, shown } from "./times.js";

const SHOWN = 200; // rounds in chart and table

/** @param {string | undefined} current @param {(id: string) => void} open */
export async function listTasks(current, open) {
  const tasks = await get("/v1/tasks");
  const focused = /** @type {HTMLElement | null} */ (document.activeElement)?.dataset?.task;
  const items = tasks.map((/** @type {any} */ task) => {
    const item = document.createElement("li");
    const button = document.createElement("button");
    const small = document.createElement("small");
    button.type = "button";
    button.dataset.task = task.task_id;
    button.textContent = task.name;
    small.textContent = `${task.retired ? "retired; " : ""}${task.guarantee}`;
    button.append(small);
    button.setAttribute("aria-current", String(current === task.task_id));
    button.addEventListener("click", () => open(task.task_id));
    item.append(button);
    return item;
  });
  element("tasks").replaceChildren(...items);
  if (focused) /** @type {HTMLElement | null} */ (document.querySelector(`#tasks [data-task="${focused}"]`))?.focus();
  element("device-tasks").hidden = tasks.length === 0;
  return tasks;
}

export class TaskView {
  constructor() {
    this.mayRead = true; // an auditor sees facts alone
    /** @type {string | null} */ this.current = null;
    this.chart = new Chart(element("task-chart"), () => {}, () => {});
    this.chart.timed = true;
    this.chart.steps = true;
    this.chart.words = { x: "Time (UTC)", per: "mean of a device", mean: "mean of a device", sum: "", level: "" };
  }

  close() {
    this.current = null;
    element("task").hidden = true;
    this.chart.clear();
  }

  /** @param {string} id */
  async open(id) {
    this.chart.clear();
    this.current = id;
    element("task").hidden = false;
    await this.refresh();
  }

  async refresh() {
    const id = this.current;
    if (id === null) return;
    const [known, { rows }] = await Promise.all([
      get(`/v1/tasks/${id}`),
      this.mayRead ? get(`/v1/tasks/${id}/collection`) : { rows: [] },
    ]);
    if (id !== this.current) return;
    element("task-name").textContent = known.name;
    facts("task-facts", [
      ["Guarantee", known.guarantee],
      ["A round lasts", known.every],
      ["This round closes", `${said(known.closes)} UTC`],
      ["Devices asked", shown(known.asked)],
      ["Reports in it", shown(known.reports)],
      ["Late reports count until", `${said(known.accepted_until)} UTC`],
      ["Through a shuffler", known.shuffled ? "yes" : "no"],
    ]);
    this.#draw(rows.filter((/** @type {any} */ one) => one.mean).slice(-SHOWN));
  }

  /** @param {any[]} rows */
  #draw(rows) {
    element("task-empty").hidden = rows.length > 0;
    element("task-chart").hidden = rows.length === 0;
    if (!rows.length) return;
    const last = rows[rows.length - 1];
    const ended = (/** @type {string} */ name) => [...rows, last].map((one) => one.mean[name]);
    this.chart.setBands([
      {
        name: "",
        x: [...rows.map((one) => one.from), last.to],
        rows: rows.map((one) => one.reports),
        mean: { middle: ended("estimate"), low: ended("low"), high: ended("high") },
        sum: null,
      },
    ]);
    element("task-rows").replaceChildren(
      ...[...rows].reverse().map((one) =>
        row([
          said(one.from),
          shown(one.reports),
          shown(one.mean.estimate, 4),
          shown(one.mean.low, 4),
          shown(one.mean.high, 4),
        ]),
      ),
    );
  }
}
