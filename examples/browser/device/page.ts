/**
 * The device page: what this machine's GPU does with the embedded model.
 *
 * `?model=` names another address of the embedded model, `?runs=`, `?prefill=`, `?decode=` and
 * `?batch=` change how much is run.
 *
 * @module
 */
import { type AdapterDescription, inspectAdapter } from "wisp-llm/browser";
import { name, version } from "../../../package.json";
import { byId, element, fill } from "../app/dom.ts";
import { startTheme } from "../app/theme.ts";
import { explainError } from "../model/explain_error.ts";
import { choiceOfQuery, EMBEDDED } from "../model/model_choice.ts";
import { adapterView } from "./adapter_view.ts";
import type { DeviceReport, MeasureSettings } from "./device_report.ts";
import { loadEmbedded } from "./load_embedded.ts";
import { DEFAULT_SETTINGS, measureDevice } from "./measure.ts";
import { reportView } from "./report_view.ts";
import { resultsView } from "./results_view.ts";
import { StepsView } from "./steps_view.ts";

const start = byId<HTMLButtonElement>("start");
const cancel = byId<HTMLButtonElement>("cancel");
const problem = byId("problem");
const results = byId("results");
const steps = new StepsView();

const QUERY: readonly (readonly [string, keyof MeasureSettings])[] = [
  ["runs", "runs"],
  ["prefill", "prefillTokens"],
  ["decode", "decodeTokens"],
  ["batch", "batch"],
];

function querySettings(query: URLSearchParams): MeasureSettings {
  const given = QUERY.filter(([short]) => query.has(short)).map(([short, setting]) => [
    setting,
    Number(query.get(short)),
  ]);
  return { ...DEFAULT_SETTINGS, ...Object.fromEntries(given) };
}

/** Runs one measurement, which the button "Cancel" ends. */
async function run(adapter: AdapterDescription): Promise<void> {
  const choice = choiceOfQuery(location.search) ?? EMBEDDED;
  if (choice.kind !== "url") throw new Error("Cannot measure: the model is not at an address");
  const { url } = choice;
  const settings = querySettings(new URLSearchParams(location.search));
  const controller = new AbortController();
  const end = () => controller.abort();
  cancel.addEventListener("click", end);
  const onProgress = (share: number) => steps.progress(share);
  try {
    const { warning: _, ...facts } = adapter;
    const report = await measureDevice({
      load: (signal) => loadEmbedded({ url, signal, settings, onProgress }),
      ...{ adapter: facts, settings, library: { name, version } },
      userAgent: navigator.userAgent,
      signal: controller.signal,
      onStep: (step) => steps.step(step),
    });
    show(report);
  } finally {
    cancel.removeEventListener("click", end);
  }
}

function show(report: DeviceReport): void {
  fill(results, resultsView(report), reportView(report));
  results.hidden = false;
  results.focus();
}

function showProblem(error: unknown): void {
  const { text, advice } = explainError(error);
  fill(problem, element("p", {}, text), advice !== undefined && element("p", {}, advice));
  problem.hidden = false;
}

async function measure(adapter: AdapterDescription): Promise<void> {
  start.hidden = true;
  cancel.hidden = false;
  problem.hidden = true;
  results.hidden = true;
  steps.begin();
  try {
    await run(adapter);
    start.textContent = "Measure again";
  } catch (error) {
    const isCancelled = error instanceof Error && error.name === "AbortError";
    if (!isCancelled) showProblem(error);
  } finally {
    steps.end();
    cancel.hidden = true;
    start.hidden = false;
  }
}

async function open(): Promise<void> {
  startTheme(byId<HTMLButtonElement>("theme"));
  byId("steps").append(steps.element);
  try {
    const adapter = await inspectAdapter();
    fill(byId("adapter"), adapterView(adapter));
    start.disabled = false;
    start.addEventListener("click", () => measure(adapter));
  } catch (error) {
    byId("measure").hidden = true;
    fill(byId("adapter"), element("p", {}, "No GPU that a page may use was found."));
    showProblem(error);
  }
}

await open();
