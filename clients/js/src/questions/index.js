/** Questions from messages. */

import { SettingError } from "../errors.js";
import { field, objectField } from "./question.js";
import { ABOVE, BELOW, TailQuestion } from "./tail.js";
import { ValueQuestion } from "./value.js";
import { WaveQuestion } from "./wave.js";

export { TailQuestion, ValueQuestion, WaveQuestion };

/** @import { Question } from "./question.js" */

/** @type {Map<string, (plain: Record<string, unknown>) => Question>} */
const FORMS = new Map();
FORMS.set(ABOVE, TailQuestion.fromPlain);
FORMS.set(BELOW, TailQuestion.fromPlain);
FORMS.set("value", ValueQuestion.fromPlain);
FORMS.set("wave", WaveQuestion.fromPlain);

/**
 * The question of a message; refuses anything malformed by name.
 *
 * @param {unknown} plain
 * @returns {Question}
 */
export function questionFromPlain(plain) {
  const read = objectField("question", plain);
  const form = field(read, "form");
  const fromPlain = typeof form === "string" ? FORMS.get(form) : undefined;
  if (!fromPlain) {
    throw new SettingError("question", `its form must be one of ${[...FORMS.keys()].join(", ")}`);
  }
  return fromPlain(read);
}
