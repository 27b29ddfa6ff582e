/**
 * Which kernels take the GPU's time, measured when the visitor asks for it.
 *
 * @module
 */
import { chromeTrace, type KernelProfile, type Profile } from "wisp-llm";
import { element } from "../app/dom.ts";
import { count, duration, percent, rate } from "../drawing/figures.ts";
import { saveFile } from "../drawing/save_file.ts";
import type { PanelSource } from "./panel_source.ts";

const TOP = 8;
const QUESTION = "What is the capital of Japan?";
const MAX_TOKENS = 24;

export class KernelSection {
  readonly element: HTMLElement;
  readonly #source: PanelSource;
  readonly #measure = element("button", { type: "button" }, "Measure");
  readonly #download = element("button", { type: "button", hidden: true }, "Download trace");
  readonly #status = element("p", { class: "panel-note", role: "status" });
  readonly #list = element("ol", { class: "kernel-list" });
  #profile: Profile | undefined;

  constructor(source: PanelSource) {
    this.#source = source;
    this.#status.textContent = "Runs one short answer and times every launch on the GPU.";
    this.#measure.addEventListener("click", () => this.#run());
    this.#download.addEventListener("click", () => {
      if (this.#profile === undefined) return;
      saveFile("wisp-trace.json", JSON.stringify(chromeTrace(this.#profile)));
    });
    this.element = element(
      "section",
      { class: "panel-section" },
      element("h3", {}, "Kernels"),
      this.#status,
      this.#list,
      element("p", { class: "panel-buttons" }, this.#measure, this.#download),
    );
  }

  async #run(): Promise<void> {
    this.#measure.disabled = true;
    this.#status.textContent = "Measuring…";
    try {
      this.#show(await takeProfile(this.#source));
    } catch (error) {
      const reason = error instanceof Error ? error.message : String(error);
      this.#status.textContent = reason.includes("timestamp-query")
        ? "This browser gives no times of GPU work (WebGPU feature timestamp-query), so kernels cannot be measured here."
        : reason;
    } finally {
      this.#measure.disabled = false;
    }
  }

  #show(profile: Profile): void {
    const { kernels, rates, steps } = profile;
    const total = kernels.reduce((sum, { microseconds }) => sum + microseconds, 0);
    const rest = kernels.slice(TOP);
    this.#list.replaceChildren(...kernels.slice(0, TOP).map((kernel) => line(kernel, total)));
    const others =
      rest.length === 0
        ? ""
        : ` ${rest.length} others took ${percent(sumOf(rest) / Math.max(total, 1))}.`;
    this.#status.textContent =
      `${count(steps)} steps, ${duration(total / 1e6)} on the GPU, whose copies reach ` +
      `${rate(rates.copy, "B/s")} and whose arithmetic ${rate(rates.fma, "FLOP/s")}.${others}`;
    this.#profile = profile;
    this.#download.hidden = false;
    this.#measure.textContent = "Measure again";
  }
}

/** Profiles one short greedy answer. */
async function takeProfile(source: PanelSource): Promise<Profile> {
  if (source.profile === undefined) throw new Error("This engine cannot be measured");
  const messages = [{ role: "user", content: QUESTION }];
  const sampling = { temperature: 0, maxNewTokens: MAX_TOKENS };
  return source.profile(async () => {
    for await (const _ of source.generate({ messages, sampling })) {
      // Only how long its launches take is of interest.
    }
  });
}

function sumOf(kernels: readonly KernelProfile[]): number {
  return kernels.reduce((sum, { microseconds }) => sum + microseconds, 0);
}

/** A kernel's share as a bar; the part of it that the adapter's bound explains is solid. */
function line(
  { kernel, launches, microseconds, boundMicroseconds }: KernelProfile,
  total: number,
): HTMLLIElement {
  const share = microseconds / Math.max(total, 1e-9);
  const near = Math.min(1, boundMicroseconds / Math.max(microseconds, 1e-9));
  const width = (part: number) => `width: ${(100 * part).toFixed(2)}%`;
  return element(
    "li",
    { title: `${count(launches)} launches, ${duration(microseconds / 1e6)}` },
    element("span", { class: "kernel-name" }, kernel),
    element("b", {}, percent(share)),
    element(
      "span",
      { class: "kernel-bar", "aria-hidden": "true" },
      element(
        "span",
        { class: "kernel-share", style: width(share) },
        element("span", { class: "kernel-bound", style: width(near) }),
      ),
    ),
    element("small", {}, `${percent(near)} of the bound`),
  );
}
