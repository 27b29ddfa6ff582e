/**
 * Questions to begin with.
 *
 * @module
 */
import { byId, element } from "../app/dom.ts";
import type { AnsweringModel } from "./answer_source.ts";

/** The embedded model was trained on few kinds of questions. */
const OF_EMBEDDED = [
  "What is the capital of Japan?",
  "What is 12 + 35?",
  "Tell me a story about a cat named Luna.",
  "Extract name, age and city as JSON: Anna is 34 years old and lives in Oslo.",
] as const;

const OF_OTHERS = [
  "Explain how a rainbow forms, in three sentences.",
  "Write a haiku about rain on a tin roof.",
  "What is 17 % of 2,340? Show the steps.",
  "Write a TypeScript function that removes duplicates from an array.",
] as const;

export function showSuggestions({ path }: AnsweringModel, propose: (text: string) => void): void {
  const questions = path.includes("tiny-deepseek-v3") ? OF_EMBEDDED : OF_OTHERS;
  const rows = questions.map((question) =>
    element(
      "li",
      {},
      element("button", { type: "button", onclick: () => propose(question) }, question),
    ),
  );
  byId("suggestions").replaceChildren(...rows);
}
