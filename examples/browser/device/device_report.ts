/**
 * What the device page measures, as data: the form of the file that visitors can send.
 *
 * A file is one JSON object. Its form has a number, `version`, which grows when a field changes its
 * meaning or goes away; readers take fields that they do not know as absent. All times are in
 * seconds but those of kernels, which are in microseconds as in the library's profiles.
 *
 * | field | what |
 * |---|---|
 * | `schema`, `version` | "wisp-device-report", 1 |
 * | `date` | when it was made, ISO 8601 in UTC |
 * | `library` | name and version of the package |
 * | `userAgent` | what the browser calls itself; names the system too |
 * | `adapter` | what WebGPU tells of the GPU: names, features, limits |
 * | `model` | what was run, and the bytes of its weights and its cache |
 * | `settings` | how much was run |
 * | `load` | seconds to load the model, the first time on the page and again |
 * | `selfTest` | what the kernels get right here |
 * | `answer` | a question with one right answer, and what came |
 * | `speeds` | tokens a second: prefill, decode of one sequence, decode of several |
 * | `kernels` | the adapter's rates and the time of each kernel; null where they cannot be taken |
 *
 * It holds no address, no prompt of the visitor's and nothing that tells visitors apart beyond what
 * browser and GPU say of themselves.
 *
 * @module
 */
import type { AdapterRates, KernelProfile, SelfTestReport } from "wisp-llm";
import type { AdapterDescription } from "wisp-llm/browser";

export const SCHEMA = "wisp-device-report";
export const VERSION = 1;

/** What the browser tells of its adapter; much of it may be empty. */
export type AdapterFacts = Omit<AdapterDescription, "warning">;

export interface MeasureSettings {
  /** Of each speed, after one that does not count. */
  readonly runs: number;
  /** Prompt tokens whose prefill is timed. */
  readonly prefillTokens: number;
  /** Completion tokens of each sequence whose decode is timed. */
  readonly decodeTokens: number;
  /** Sequences that are decoded together. */
  readonly batch: number;
}

export interface LoadTimes {
  /** From an empty page to an engine that answers: files, self-test, weights, pipelines. */
  readonly seconds: number;
  readonly pipelines: number;
  /** Sum over pipelines, of which several are compiled at once. */
  readonly compileSeconds: number;
}

/** Tokens that were timed, and the seconds that they took. */
export interface Timed {
  readonly tokens: number;
  readonly seconds: number;
}

export interface SpeedFigure {
  readonly phase: "prefill" | "decode";
  /** Sequences at once. */
  readonly batch: number;
  /** In the order in which they were made; the tokens are of all sequences. */
  readonly runs: readonly Timed[];
  /** The median of the runs. */
  readonly tokensPerSecond: number;
}

/** Kernels of the steps of one phase, what takes the most time first. */
export interface PhaseKernels {
  readonly phase: "prefill" | "decode";
  readonly steps: number;
  readonly kernels: readonly KernelProfile[];
}

export interface KernelFigures {
  /** Bytes and operations a second of kernels that do nothing else. */
  readonly rates: AdapterRates;
  /** The grain of the GPU's clock, which browsers make coarse: all times of launches are multiples. */
  readonly grainMicroseconds: number;
  readonly phases: readonly PhaseKernels[];
}

export interface DeviceReport {
  readonly schema: typeof SCHEMA;
  readonly version: typeof VERSION;
  readonly date: string;
  readonly library: { readonly name: string; readonly version: string };
  readonly userAgent: string;
  readonly adapter: AdapterFacts;
  readonly model: {
    readonly architecture: string;
    readonly contextLength: number;
    readonly weightBytes: number;
    readonly cacheBytes: number;
  };
  readonly settings: MeasureSettings;
  readonly load: { readonly cold: LoadTimes; readonly warm: LoadTimes };
  readonly selfTest: SelfTestReport;
  readonly answer: {
    readonly question: string;
    readonly text: string;
    readonly expected: string;
    readonly isExpected: boolean;
  };
  readonly speeds: readonly SpeedFigure[];
  readonly kernels: KernelFigures | null;
  /** Why there are no kernels; null where there are. */
  readonly whyNoKernels: string | null;
}

/** The middle of the values, or the mean of the two in the middle. */
export function median(values: readonly number[]): number {
  if (values.length === 0) throw new RangeError("Cannot take the median: there are no values");
  const sorted = [...values].sort((a, b) => a - b);
  const middle = sorted.length >> 1;
  return sorted.length % 2 === 1 ? sorted[middle]! : (sorted[middle - 1]! + sorted[middle]!) / 2;
}
