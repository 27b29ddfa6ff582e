/**
 * The buttons below the question: tools, and answers in JSON.
 *
 * @module
 */
import { announce } from "../app/announce.ts";
import { byId } from "../app/dom.ts";
import { type IconName, icon } from "../app/icons.ts";
import { JsonEditor } from "./json_editor.ts";
import { type Settings, saveSettings } from "./settings.ts";

export class ModeButtons {
  readonly #settings: Settings;
  readonly #editor: JsonEditor;

  constructor(settings: Settings) {
    this.#settings = settings;
    this.#editor = new JsonEditor(settings);
    prepare("toggle-tools", "tool", "Tools", "A clock and a calculator that the model may use");
    prepare("toggle-json", "braces", "JSON", "Answers that fit a JSON schema, without tools");
    byId("toggle-tools").addEventListener("click", () => {
      settings.usesTools = !settings.usesTools;
      // An answer is one or the other.
      if (settings.usesTools) settings.answersJson = false;
      this.#changed();
    });
    byId("toggle-json").addEventListener("click", () => {
      settings.answersJson = !settings.answersJson;
      if (settings.answersJson) settings.usesTools = false;
      this.#changed();
      if (settings.answersJson) this.#editor.focus();
    });
    this.#show();
  }

  /** Whether an answer can be asked for; if not, it says why. */
  areReady(): boolean {
    if (!this.#settings.answersJson || this.#editor.check()) return true;
    announce("Correct the JSON schema first");
    this.#editor.focus();
    return false;
  }

  #changed(): void {
    saveSettings(this.#settings);
    this.#show();
  }

  #show(): void {
    const { usesTools, answersJson } = this.#settings;
    byId("toggle-tools").setAttribute("aria-pressed", String(usesTools));
    byId("toggle-json").setAttribute("aria-pressed", String(answersJson));
    byId("json-editor").hidden = !answersJson;
    if (answersJson) this.#editor.check();
  }
}

function prepare(id: string, name: IconName, label: string, title: string): void {
  const button = byId(id);
  button.append(icon(name), label);
  button.title = title;
}
