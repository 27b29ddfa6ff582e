/**
 * How far a model is: a bar for each step, with bytes, rate and the time that is left.
 *
 * @module
 */
import { announce } from "../app/announce.ts";
import { element, setText } from "../app/dom.ts";
import { formatBytes, formatSeconds } from "../app/format.ts";
import type { Fit } from "./fit.ts";
import type { LoadProgress, Phase } from "./load_model.ts";

/** What the visitor sees as one step. */
type Step = "download" | "headers" | "adapter" | "weights" | "pipelines";

const NAMES: Readonly<Record<Step, string>> = {
  download: "Download",
  headers: "Sizes",
  adapter: "Test of the GPU",
  weights: "Weights",
  pipelines: "Pipelines",
};

/** Parts of the download in which no bytes come. */
const PAUSES: { readonly [phase in Phase]?: string } = {
  waiting: "another tab is at it",
  listing: "asking what there is",
  checking: "checking what is here",
};

/** The rate is that of the last seconds, not of the whole. */
const WINDOW_SECONDS = 5;

export class ProgressView {
  readonly element: HTMLElement;
  readonly #rows = element("ol", { class: "phases" });
  readonly #fit = element("p", { class: "hint" });
  readonly #steps = new Map<Step, StepRow>();

  constructor(name: string, cancel: () => void) {
    this.element = element(
      "section",
      { class: "loading", "aria-label": "Loading" },
      element("h2", {}, `Loading ${name}`),
      this.#rows,
      this.#fit,
      element("button", { type: "button", onclick: cancel }, "Cancel"),
    );
  }

  show(progress: LoadProgress): void {
    const step = stepOf(progress.phase);
    let row = this.#steps.get(step);
    if (row === undefined) {
      row = new StepRow(step);
      this.#steps.set(step, row);
      this.#rows.append(row.element);
      announce(`Loading: ${NAMES[step]}`);
    }
    row.show(progress);
  }

  showFit({ reason }: Fit): void {
    setText(this.#fit, reason);
  }
}

function stepOf(phase: Phase): Step {
  return Object.hasOwn(NAMES, phase) ? (phase as Step) : "download";
}

class StepRow {
  readonly element: HTMLLIElement;
  readonly #bar = element("progress", { max: 1, value: 0 });
  readonly #text = element("span", { class: "figures" });
  readonly #note = element("p", { class: "hint", hidden: true });
  readonly #isBytes: boolean;
  /** Moments of the window and what was done by then. */
  readonly #seen: { readonly at: number; readonly done: number }[] = [];

  constructor(step: Step) {
    this.#isBytes = step === "download" || step === "weights";
    this.#bar.setAttribute("aria-label", NAMES[step]);
    const name = element("span", {}, NAMES[step]);
    this.element = element("li", {}, name, this.#text, this.#bar, this.#note);
  }

  show(progress: LoadProgress): void {
    const { phase, done, total, note } = progress;
    this.#bar.value = total > 0 ? done / total : 0;
    const figures = this.#isBytes ? this.#bytes(progress) : `${done} of ${total}`;
    setText(this.#text, PAUSES[phase] ?? figures);
    this.#note.hidden = note === undefined;
    setText(this.#note, note ?? "");
  }

  #bytes({ done, total, bytesPerSecond = this.#rate(done) }: LoadProgress): string {
    const amount = `${formatBytes(done)} of ${formatBytes(total)}`;
    if (done >= total || bytesPerSecond === undefined || bytesPerSecond <= 0) return amount;
    const left = formatSeconds((total - done) / bytesPerSecond);
    return `${amount} · ${formatBytes(bytesPerSecond)}/s · ${left} left`;
  }

  /** Bytes a second; undefined until there is something to measure. */
  #rate(done: number): number | undefined {
    const at = performance.now() / 1000;
    this.#seen.push({ at, done });
    while (this.#seen.length > 2 && at - this.#seen[0]!.at > WINDOW_SECONDS) this.#seen.shift();
    const first = this.#seen[0]!;
    return at - first.at < 0.5 ? undefined : (done - first.done) / (at - first.at);
  }
}
