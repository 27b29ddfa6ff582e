/**
 * The drawer of settings: instructions, sampling, thinking.
 *
 * @module
 */
import { byId, element } from "../app/dom.ts";
import type { AnsweringModel } from "./answer_source.ts";
import type { Chat } from "./conversation.ts";
import {
  defaultOf,
  SAMPLING_FIELDS,
  type SamplingField,
  type Settings,
  saveSettings,
  type Thinking,
} from "./settings.ts";

const THINKING: readonly (readonly [Thinking, string])[] = [
  ["auto", "As the model likes"],
  ["on", "Always"],
  ["off", "Never"],
];

export class SettingsView {
  readonly #settings: Settings;
  readonly #system = element("textarea", { id: "system", rows: 4 });
  readonly #thinking = element("select", { id: "thinking" });
  readonly #fields = new Map<SamplingField, HTMLInputElement>();

  /** @param changeSystem Is told of every change of the chat's instructions. */
  constructor(settings: Settings, changeSystem: (text: string) => void) {
    this.#settings = settings;
    this.#system.addEventListener("input", () => changeSystem(this.#system.value));
    this.#system.placeholder = "Such as: Answer in one sentence.";
    const choices = THINKING.map(([value, label]) => element("option", { value }, label));
    this.#thinking.append(...choices);
    this.#thinking.value = settings.thinking;
    this.#thinking.addEventListener("change", () => {
      settings.thinking = this.#thinking.value as Thinking;
      saveSettings(settings);
    });
    byId("settings").append(
      field("system", "System prompt", "of this chat", this.#system),
      field("thinking", "Thinking", "of models that can do both", this.#thinking),
      element(
        "fieldset",
        {},
        element("legend", {}, "Sampling"),
        ...SAMPLING_FIELDS.map((one) => this.#samplingField(one)),
        element(
          "button",
          { type: "button", class: "wide-button", onclick: () => this.#reset() },
          "Back to the model's own",
        ),
      ),
    );
  }

  /** Shows the instructions of a chat. */
  showChat({ system }: Chat): void {
    this.#system.value = system;
  }

  /** Shows what fields have when they are empty, and whether this model can be told to think. */
  showModel({ defaults, thinkingVariables }: AnsweringModel): void {
    for (const [{ name }, input] of this.#fields) input.placeholder = defaultOf(name, defaults);
    const isSwitch = (name: string) => name === "thinking" || name === "enable_thinking";
    this.#thinking.disabled = !thinkingVariables.some(isSwitch);
  }

  #samplingField(one: SamplingField): HTMLElement {
    const { name, label, hint, min, max, step } = one;
    const id = `sampling-${name}`;
    const input = element("input", {
      id,
      type: "number",
      min,
      max,
      step: "any",
      inputmode: "decimal",
    });
    input.step = Number.isInteger(step) ? "1" : "any";
    const value = this.#settings.sampling[name];
    if (value !== undefined) input.value = String(value);
    input.addEventListener("input", () => this.#change(one, input));
    this.#fields.set(one, input);
    return field(id, label, hint, input);
  }

  /** What is out of range is marked and not used. */
  #change({ name, min, max }: SamplingField, input: HTMLInputElement): void {
    const isGood = input.checkValidity();
    input.setAttribute("aria-invalid", String(!isGood));
    input.title = isGood ? "" : `A number from ${min} to ${max}`;
    if (!isGood) return;
    if (input.value === "") delete this.#settings.sampling[name];
    else this.#settings.sampling[name] = input.valueAsNumber;
    saveSettings(this.#settings);
  }

  #reset(): void {
    this.#settings.sampling = {};
    for (const input of this.#fields.values()) {
      input.value = "";
      input.removeAttribute("aria-invalid");
    }
    saveSettings(this.#settings);
  }
}

function field(id: string, label: string, hint: string, control: HTMLElement): HTMLElement {
  control.setAttribute("aria-describedby", `${id}-hint`);
  return element(
    "div",
    { class: "field" },
    element("label", { for: id }, label),
    control,
    element("p", { id: `${id}-hint`, class: "hint" }, hint),
  );
}
