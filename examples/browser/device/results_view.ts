/**
 * The figures of a measurement, as cards, and whether everything was right.
 *
 * @module
 */
import { element } from "../app/dom.ts";
import { icon } from "../app/icons.ts";
import { count, duration, rounded } from "../drawing/figures.ts";
import type { DeviceReport, SpeedFigure } from "./device_report.ts";
import { rooflineView } from "./roofline_view.ts";

const FP8_WORDS: Readonly<Record<DeviceReport["selfTest"]["fp8Decode"], string>> = {
  half: "FP8 weights are decoded as halves",
  bits: "FP8 weights are decoded bit by bit, because small halves are rounded to 0 here",
};

const MARKS = { right: "check", wrong: "warning", fact: "gauge" } as const;

export function resultsView(report: DeviceReport): HTMLElement {
  const { kernels, whyNoKernels } = report;
  return element(
    "div",
    { class: "results" },
    section("Speed", element("dl", { class: "cards" }, ...cards(report))),
    section("Self-test", element("ul", { class: "checks" }, ...checks(report))),
    section(
      "Roofline",
      kernels === null
        ? element("p", { class: "notice" }, withoutKernels(whyNoKernels ?? ""))
        : rooflineView(kernels),
    ),
  );
}

function section(title: string, ...children: readonly Node[]): HTMLElement {
  return element("section", {}, element("h2", {}, title), ...children);
}

function cards({ speeds, load }: DeviceReport): HTMLElement[] {
  const { cold, warm } = load;
  const note = `${duration(warm.seconds)} the second time; ${count(cold.pipelines)} pipelines`;
  return [...speeds.map(speedCard), card("Load", { value: duration(cold.seconds), note })];
}

function speedCard({ phase, batch, runs, tokensPerSecond }: SpeedFigure): HTMLElement {
  const rates = runs.map(({ tokens, seconds }) => tokens / seconds);
  const range = `${rounded(Math.min(...rates))} to ${rounded(Math.max(...rates))}`;
  const note = runs.length === 1 ? "one run" : `median of ${runs.length} runs, ${range}`;
  const answers = batch === 1 ? "one answer" : `${batch} answers at once`;
  const title =
    phase === "prefill" ? `Prefill of ${count(runs[0]!.tokens)} tokens` : `Decode, ${answers}`;
  return card(title, { value: rounded(tokensPerSecond), unit: "tokens/s", note });
}

interface Card {
  readonly value: string;
  readonly unit?: string;
  readonly note: string;
}

function card(title: string, { value, unit, note }: Card): HTMLElement {
  return element(
    "div",
    { class: "card" },
    element("dt", {}, title),
    element(
      "dd",
      {},
      element("b", {}, value),
      unit !== undefined && element("span", {}, ` ${unit}`),
    ),
    element("dd", { class: "card-note" }, note),
  );
}

function checks({ answer, selfTest }: DeviceReport): HTMLElement[] {
  const { failures, batchInvariant, subgroupSize, fp8Decode } = selfTest;
  const wrong = `The model should answer “${answer.expected}” and says “${answer.text}”`;
  return [
    check(answer.isExpected, answer.isExpected ? `The model answers “${answer.text}”` : wrong),
    check(
      batchInvariant,
      batchInvariant
        ? "An answer has the same bits alone and among others"
        : "An answer may have other bits among others than alone",
    ),
    ...(failures.length === 0
      ? [check(true, "Every kind of kernel gives the right numbers")]
      : failures.map((failure) => check(false, failure))),
    check(
      undefined,
      subgroupSize === undefined
        ? "Kernels work without subgroups here"
        : `Kernels share loads in subgroups of ${subgroupSize}`,
    ),
    check(undefined, FP8_WORDS[fp8Decode]),
  ];
}

/** @param isRight Undefined for what is neither right nor wrong. */
function check(isRight: boolean | undefined, words: string): HTMLLIElement {
  const state = isRight === undefined ? "fact" : isRight ? "right" : "wrong";
  const spoken = { fact: "", right: "Right: ", wrong: "Wrong: " }[state];
  return element(
    "li",
    { class: `check is-${state}` },
    icon(MARKS[state]),
    element("span", { class: "hidden" }, spoken),
    element("span", {}, words),
  );
}

function withoutKernels(reason: string): string {
  return reason.includes("timestamp-query")
    ? "This browser gives no times of GPU work (WebGPU feature timestamp-query), so kernels cannot be timed."
    : `Kernels could not be timed: ${reason}`;
}
