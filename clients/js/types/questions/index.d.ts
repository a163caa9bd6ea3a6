/**
 * The question of a message; refuses anything malformed by name.
 *
 * @param {unknown} plain
 * @returns {Question}
 */
export function questionFromPlain(plain: unknown): Question;
import type { Question } from "./question.js";
import { TailQuestion } from "./tail.js";
import { ValueQuestion } from "./value.js";
import { WaveQuestion } from "./wave.js";
export { TailQuestion, ValueQuestion, WaveQuestion };
