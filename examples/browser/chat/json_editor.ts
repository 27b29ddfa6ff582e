/**
 * The editor of the schema that answers are held to, which is checked as it is written.
 *
 * @module
 */
import { compileGrammar } from "wisp-llm";
import { byId, setText } from "../app/dom.ts";
import { type Settings, saveSettings } from "./settings.ts";

const PAUSE_MS = 200;

export class JsonEditor {
  readonly #settings: Settings;
  readonly #field = byId<HTMLTextAreaElement>("schema");
  readonly #verdict = byId("schema-verdict");
  #timer: ReturnType<typeof setTimeout> | undefined;
  #isGood = true;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#field.value = settings.schema;
    this.#field.addEventListener("input", () => {
      clearTimeout(this.#timer);
      this.#timer = setTimeout(() => this.check(), PAUSE_MS);
    });
  }

  /** Reads what is written; false, with the reason below the field, where no answer could fit it. */
  check(): boolean {
    clearTimeout(this.#timer);
    const source = this.#field.value;
    const problem = problemOf(source);
    this.#isGood = problem === undefined;
    this.#field.setAttribute("aria-invalid", String(!this.#isGood));
    this.#verdict.classList.toggle("error", !this.#isGood);
    setText(this.#verdict, problem ?? "This schema can be enforced");
    this.#settings.schema = source;
    saveSettings(this.#settings);
    return this.#isGood;
  }

  focus(): void {
    this.#field.focus();
    this.#field.setSelectionRange(0, 0);
    this.#field.scrollTop = 0;
  }
}

/** What is wrong with a schema, or undefined. */
function problemOf(source: string): string | undefined {
  try {
    // A message of its own, as it says where the text stops being JSON.
    JSON.parse(source);
    compileGrammar({ jsonSchema: source });
    return undefined;
  } catch (error) {
    return (error as Error).message;
  }
}
