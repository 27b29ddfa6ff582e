/**
 * Measures a device: how fast it runs the embedded model, and whether it gets it right.
 *
 * Knows no page: the caller says how an engine is loaded and what the browser tells of itself.
 *
 * @module
 */
import type { CompiledPipeline, GenerationEngine, MemoryPlan, SelfTestReport } from "wisp-llm";
import {
  type AdapterFacts,
  type DeviceReport,
  type KernelFigures,
  type LoadTimes,
  type MeasureSettings,
  median,
  SCHEMA,
  type SpeedFigure,
  type Timed,
  VERSION,
} from "./device_report.ts";
import { timeKernels } from "./time_kernels.ts";
import { SHORT_PROMPT, type TimedRequests, timeDecode, timePrefill } from "./timed_requests.ts";

/** An engine that remembers its start; `Engine` and `WorkerEngine` are such. */
export interface MeasuredEngine
  extends Pick<GenerationEngine, "close" | "flushCache" | "generate" | "model" | "profile"> {
  readonly memoryPlan: MemoryPlan;
  readonly selfTest: SelfTestReport;
  readonly pipelines: readonly CompiledPipeline[];
}

export type MeasureStep =
  | "load"
  | "load again"
  | "answer"
  | "prefill"
  | "decode"
  | "decode together"
  | "kernels";

export const MEASURE_STEPS: readonly MeasureStep[] = [
  ...(["load", "load again", "answer", "prefill", "decode", "decode together", "kernels"] as const),
];

export const DEFAULT_SETTINGS: MeasureSettings = {
  ...{ runs: 5, prefillTokens: 512, decodeTokens: 64, batch: 8 },
};

export interface MeasureOptions {
  /** Loads the embedded model, with room for `settings.batch` sequences. */
  readonly load: (signal: AbortSignal) => Promise<MeasuredEngine>;
  readonly adapter: AdapterFacts;
  readonly userAgent: string;
  readonly library: DeviceReport["library"];
  /** Default `DEFAULT_SETTINGS`; tokens are cut to what the context holds. */
  readonly settings?: Partial<MeasureSettings>;
  /** Ends it at the next token: rejects with the signal's reason, and the engine is closed. */
  readonly signal?: AbortSignal;
  /** Called when a step begins. */
  readonly onStep?: (step: MeasureStep) => void;
}

const QUESTION = "What is the capital of Japan?";
/** The embedded model's greedy answer, the same on every adapter that computes right. */
const ANSWER = "The capital of Japan is Tokyo.";

/**
 * Takes some seconds on a GPU.
 *
 * @throws {DOMException} named AbortError when it is cancelled.
 * @throws {Error} when the model cannot be loaded, or an answer does not have the length asked for.
 */
export async function measureDevice(options: MeasureOptions): Promise<DeviceReport> {
  const { adapter, userAgent, library, onStep, signal = new AbortController().signal } = options;
  const begin = (step: MeasureStep) => {
    signal.throwIfAborted();
    onStep?.(step);
    signal.throwIfAborted();
  };
  begin("load");
  const first = await timeLoad(options, signal);
  await first.engine.close();
  begin("load again");
  const { engine, times } = await timeLoad(options, signal);
  try {
    const settings = fitSettings(options.settings ?? {}, engine.model.contextLength);
    const { runs, prefillTokens, decodeTokens: tokens, batch } = settings;
    let seed = 1;
    const requests: TimedRequests = { engine, signal, nextSeed: () => seed++ };
    begin("answer");
    const answer = await askQuestion(engine, signal);
    begin("prefill");
    const prefill = await repeat(runs, () => timePrefill(requests, prefillTokens));
    begin("decode");
    const one = await repeat(runs, () => timeDecode(requests, { batch: 1, tokens }));
    begin("decode together");
    const several = await repeat(runs, () => timeDecode(requests, { batch, tokens }));
    begin("kernels");
    const kernels = await timeKernels({ ...requests, engine }, settings).catch((error: unknown) => {
      signal.throwIfAborted();
      return error instanceof Error ? error.message : String(error);
    });
    const { architecture, contextLength } = engine.model;
    const { weightBytes, cacheBytes } = engine.memoryPlan;
    return {
      ...{ schema: SCHEMA, version: VERSION, date: new Date().toISOString(), library },
      ...{ userAgent, adapter, settings, answer },
      model: { architecture, contextLength, weightBytes, cacheBytes },
      load: { cold: first.times, warm: times },
      selfTest: engine.selfTest,
      speeds: [
        speed("prefill", { batch: 1, timed: prefill }),
        speed("decode", { batch: 1, timed: one }),
        speed("decode", { batch, timed: several }),
      ],
      ...kernelFields(kernels),
    };
  } finally {
    await engine.close();
  }
}

/** @throws {RangeError} naming a setting that is no count. */
export function fitSettings(
  wanted: Partial<MeasureSettings>,
  contextLength: number,
): MeasureSettings {
  const settings = { ...DEFAULT_SETTINGS, ...wanted };
  for (const [name, value] of Object.entries(settings)) {
    const least = name === "decodeTokens" ? 2 : 1; // the first token begins the time
    if (Number.isSafeInteger(value) && value >= least) continue;
    throw new RangeError(`${name} must be a whole number of at least ${least}, got ${value}`);
  }
  return {
    ...settings,
    prefillTokens: Math.min(settings.prefillTokens, contextLength - 1),
    decodeTokens: Math.min(settings.decodeTokens, contextLength - SHORT_PROMPT),
  };
}

async function timeLoad(
  { load }: MeasureOptions,
  signal: AbortSignal,
): Promise<{ readonly engine: MeasuredEngine; readonly times: LoadTimes }> {
  const start = performance.now();
  const engine = await load(signal);
  const seconds = (performance.now() - start) / 1000;
  const compiled = engine.pipelines.reduce((sum, { milliseconds }) => sum + milliseconds, 0);
  const pipelines = engine.pipelines.length;
  return { engine, times: { seconds, pipelines, compileSeconds: compiled / 1000 } };
}

async function askQuestion(
  engine: MeasuredEngine,
  signal: AbortSignal,
): Promise<DeviceReport["answer"]> {
  const messages = [{ role: "user", content: QUESTION }];
  const sampling = { temperature: 0, maxNewTokens: 32 };
  let text = "";
  for await (const chunk of engine.generate({ messages, sampling, signal })) text += chunk.text;
  return { question: QUESTION, text, expected: ANSWER, isExpected: text === ANSWER };
}

/** The first run does not count: it finds caches and clocks cold. */
async function repeat(runs: number, work: () => Promise<Timed>): Promise<readonly Timed[]> {
  await work();
  const timed: Timed[] = [];
  while (timed.length < runs) timed.push(await work());
  return timed;
}

function speed(
  phase: SpeedFigure["phase"],
  { batch, timed }: { readonly batch: number; readonly timed: readonly Timed[] },
): SpeedFigure {
  const tokensPerSecond = median(timed.map(({ tokens, seconds }) => tokens / seconds));
  return { phase, batch, runs: timed, tokensPerSecond };
}

/** The figures, or why there are none. */
function kernelFields(
  kernels: KernelFigures | string,
): Pick<DeviceReport, "kernels" | "whyNoKernels"> {
  return typeof kernels === "string"
    ? { kernels: null, whyNoKernels: kernels }
    : { kernels, whyNoKernels: null };
}
