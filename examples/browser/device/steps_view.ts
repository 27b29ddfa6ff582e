/**
 * How far a measurement is: its steps as a list, and the share of what is being loaded.
 *
 * @module
 */
import { element, setText } from "../app/dom.ts";
import { icon } from "../app/icons.ts";
import { percent } from "../drawing/figures.ts";
import { MEASURE_STEPS, type MeasureStep } from "./measure.ts";

const WORDS: Readonly<Record<MeasureStep, string>> = {
  load: "Load the model, for the first time here",
  "load again": "Load it again",
  answer: "Check an answer",
  prefill: "Read long prompts",
  decode: "Write one answer at a time",
  "decode together": "Write several answers at once",
  kernels: "Time every kernel",
};

export class StepsView {
  readonly element: HTMLElement;
  readonly #items: ReadonlyMap<MeasureStep, HTMLLIElement>;
  readonly #bar = element("progress", { max: MEASURE_STEPS.length, value: 0 });
  readonly #said = element("p", { class: "hidden", role: "status" });
  #step: MeasureStep | undefined;

  constructor() {
    this.#items = new Map(MEASURE_STEPS.map((step) => [step, stepItem(WORDS[step])]));
    this.#bar.setAttribute("aria-label", "Steps that are done");
    this.element = element(
      "div",
      { class: "steps", hidden: true },
      this.#bar,
      element("ol", {}, ...this.#items.values()),
      this.#said,
    );
  }

  begin(): void {
    this.element.hidden = false;
    this.#show(undefined);
  }

  step(step: MeasureStep): void {
    this.#show(step);
    setText(this.#said, WORDS[step]);
  }

  /** Of the step that runs, 0 to 1. */
  progress(share: number): void {
    if (this.#step === undefined) return;
    this.#bar.value = MEASURE_STEPS.indexOf(this.#step) + Math.min(share, 0.99);
    setText(this.#items.get(this.#step)!.lastElementChild!, percent(share));
  }

  end(): void {
    this.element.hidden = true;
  }

  #show(current: MeasureStep | undefined): void {
    this.#step = current;
    const at = current === undefined ? 0 : MEASURE_STEPS.indexOf(current);
    this.#bar.value = at;
    for (const [i, step] of MEASURE_STEPS.entries()) {
      const item = this.#items.get(step)!;
      setText(item.lastElementChild!, "");
      item.dataset.state = step === current ? "running" : i < at ? "done" : "waiting";
      if (step === current) item.setAttribute("aria-current", "step");
      else item.removeAttribute("aria-current");
    }
  }
}

function stepItem(words: string): HTMLLIElement {
  return element("li", {}, icon("check"), element("span", {}, words), element("small", {}));
}
