/**
 * How models are to be loaded, as a form.
 *
 * @module
 */
import { element } from "../app/dom.ts";
import { CONTEXT_LENGTHS, type LoadWishes } from "./load_wishes.ts";

const FORM_NAMES = {
  auto: "Whatever fits best",
  published: "As published",
  int8: "8 bits",
  int4: "4 bits",
} as const satisfies Readonly<Record<LoadWishes["form"], string>>;

const DRAFT_NAMES = {
  none: "One token a step",
  text: "Draft what the text repeats",
  layer: "Draft with the model's own layer",
} as const satisfies Readonly<Record<LoadWishes["drafts"], string>>;

const GB = 1e9;

/** @param changed Is called after each change of `options`. */
export function wishesForm(options: LoadWishes, changed: () => void): HTMLElement {
  const form = select("weights-form", options.form, Object.entries(FORM_NAMES));
  form.addEventListener("change", () => {
    options.form = form.value as LoadWishes["form"];
    changed();
  });
  const drafts = select("drafts", options.drafts, Object.entries(DRAFT_NAMES));
  drafts.addEventListener("change", () => {
    options.drafts = drafts.value as LoadWishes["drafts"];
    changed();
  });
  const lengths = CONTEXT_LENGTHS.map((length) => [String(length), length.toLocaleString("en")]);
  const context = select("context-length", String(options.contextLength), lengths);
  context.addEventListener("change", () => {
    options.contextLength = Number(context.value);
    changed();
  });
  const memory = element("input", {
    ...{ id: "device-memory", type: "number", min: 0.5, max: 1000, step: "any" },
    value: Number((options.deviceMemory / GB).toFixed(1)),
  });
  memory.addEventListener("input", () => {
    const isGood = memory.checkValidity() && memory.value !== "";
    memory.setAttribute("aria-invalid", String(!isGood));
    if (!isGood) return;
    options.deviceMemory = Math.round(memory.valueAsNumber * GB);
    changed();
  });
  const hub = element("input", { id: "hub", type: "url", required: true, value: options.hub });
  hub.addEventListener("input", () => {
    const isGood = hub.checkValidity();
    hub.setAttribute("aria-invalid", String(!isGood));
    if (!isGood) return;
    options.hub = hub.value.replace(/\/$/, "");
    changed();
  });
  const prefixes = element("input", { id: "prefixes", type: "checkbox" });
  prefixes.checked = options.keepsPrefixes;
  prefixes.addEventListener("change", () => {
    options.keepsPrefixes = prefixes.checked;
    changed();
  });
  return element(
    "details",
    { class: "part options" },
    element("summary", {}, "Options"),
    element(
      "div",
      { class: "option-fields" },
      labelled("Weights", form, "4 and 8 bits are made while loading, of plain weights"),
      labelled("Memory of the GPU in GB", memory, "a guess: WebGPU does not tell it to pages"),
      labelled("Context", context, "tokens of a conversation"),
      labelled("Drafts", drafts, "the same answers; the text's for models without such a layer"),
      labelled("Hub", hub, "or a mirror of it"),
      element(
        "label",
        { class: "check" },
        prefixes,
        "Keep the beginnings of chats as they are computed, for the next visit",
      ),
    ),
  );
}

function select(id: string, value: string, choices: readonly (readonly string[])[]) {
  const node = element("select", { id });
  for (const [key, label] of choices) node.append(element("option", { value: key }, label));
  node.value = value;
  return node;
}

function labelled(label: string, control: HTMLElement, hint: string): HTMLElement {
  return element(
    "div",
    { class: "field" },
    element("label", { for: control.id }, label),
    control,
    element("p", { class: "hint" }, hint),
  );
}
