/**
 * What the sections of the GPU bench share: how large they are, what the adapter gives at most,
 * how a launch is checked and timed, and where tables go.
 *
 * `WISP_GPU_BENCH` is "full" or "small": by default full on a GPU, small where shaders run on the
 * CPU. `WISP_BENCH_OUT` is a folder that gets all tables as one Markdown file, section by section.
 *
 * @module
 */
import { appendFileSync, existsSync, mkdirSync } from "node:fs";
import { join } from "node:path";
import { expect } from "vitest";
import type { LinearLayout } from "../../kernels/linear/linear_layout.ts";
import { orderOf } from "../../kernels/linear/weights/weight_order.ts";
import { type SelfTestReport, selfTest } from "../../kernels/self_test.ts";
import { PipelineCache } from "../../src/gpu/pipeline_cache.ts";
import { Recorder } from "../../src/gpu/recorder.ts";
import { allocateTensor, type Tensor } from "../../src/gpu/tensor.ts";
import { tuningFor } from "../../src/gpu/tuning.ts";
import type { AdapterRates } from "../../src/profile.ts";
import { adapter, device, download } from "../../test/support/devices/gpu.ts";
import { catchLaunches } from "../support/launch_profile.ts";
import { machine } from "../support/machine.ts";
import { table } from "../support/table.ts";
import type { Encode } from "../support/timing.ts";
import { fillTensor, WORDS } from "./gpu_data.ts";
import { measureBenchRates } from "./gpu_rates.ts";
import { secondsOf } from "./gpu_time.ts";

const SCALE = process.env.WISP_GPU_BENCH ?? (adapter.isCpu ? "small" : "full");
if (SCALE !== "full" && SCALE !== "small") {
  throw new Error(`Cannot run the GPU bench as "${SCALE}" of WISP_GPU_BENCH: full or small`);
}

/** One of two, by the scale. */
export const scaled = <T>(full: T, small: T): T => (SCALE === "full" ? full : small);

export const TIMEOUT = 600_000;

export interface Bounds extends AdapterRates {
  readonly selfTest: SelfTestReport;
  /** As the engine lays weights out here. */
  readonly layout: LinearLayout;
}

let known: Promise<Bounds> | undefined;

/** The adapter's rates and layout, found out once. */
export function bounds(): Promise<Bounds> {
  known ??= findBounds();
  return known;
}

async function findBounds(): Promise<Bounds> {
  const report = await selfTest(device, { dtypes: ["bf16", "fp8", "int8", "int4"] });
  const { fp8Decode, subgroupSize, packedDots } = report;
  const tuning = tuningFor(device.adapterInfo);
  const layout = {
    ...orderOf(tuning),
    ...{ tuning, fp8Decode, packedDots },
    ...(subgroupSize !== undefined && { subgroupSize }),
  };
  return { ...(await measureBenchRates()), selfTest: report, layout };
}

/** What a launch has to do at least. */
export interface Work {
  readonly bytes: number;
  readonly flops: number;
}

/** Seconds that the work takes at the adapter's rates. */
export function boundSeconds({ bytes, flops }: Work, { copy, fma }: AdapterRates): number {
  return Math.max(bytes / copy, flops / fma);
}

/** Time, bytes and operations a second, and shares of the adapter's rates: cells of a table. */
export function workCells(seconds: number, work: Work, rates: AdapterRates): string[] {
  const { bytes, flops } = work;
  return [
    micros(seconds),
    (bytes / seconds / 1e9).toFixed(1),
    (flops / seconds / 1e9).toFixed(0),
    percent(bytes / seconds, rates.copy),
    percent(flops / seconds, rates.fma),
    percent(boundSeconds(work, rates), seconds),
  ];
}
export const WORK_HEADER = ["us", "GB/s", "GFLOP/s", "of copy", "of FMA", "of bound"];

export const micros = (seconds: number) => (seconds * 1e6).toFixed(seconds * 1e6 < 100 ? 1 : 0);
export const percent = (part: number, of: number) => `${((100 * part) / of).toFixed(1)} %`;

type Allocate = (bytes: number, label: string) => Tensor;

/** One way to do something: the figure that a table compares with others. */
export interface Candidate {
  readonly name: string;
  /** Candidates of one class give the same bits. */
  readonly numericClass: string;
  /**
   * Binds to the tensors of the case, and to those that it allocates for as long as it runs.
   *
   * @returns Records what is timed, in turns where there are several.
   */
  bind(recorder: Recorder, allocate: Allocate): readonly (() => void)[];
}

export interface Trial {
  readonly candidate: Candidate;
  /** Full of NaN before the first turn runs. */
  readonly out: Tensor;
  /** Looks at what the first turn made, which nothing has written since. */
  check(candidate: Candidate): Promise<void>;
}

/** Every section's: what was compiled for one case is there for the next. */
const pipelines = new PipelineCache(device);

/** Runs the first turn over NaN, checks it, and times all turns: seconds of one. */
export async function measure({ candidate, out, check }: Trial): Promise<number> {
  const recorder = new Recorder(device, { maxLaunches: 512, pipelines });
  const own: Tensor[] = [];
  const allocate = (bytes: number, label: string) => {
    const tensor = allocateTensor(device, bytes, label);
    own.push(tensor);
    return tensor;
  };
  try {
    const turns = candidate.bind(recorder, allocate);
    await recorder.pipelines.ready();
    const encodes: Encode[] = [];
    for (const [i, record] of turns.entries()) {
      if (i === 0) await fillTensor(out, [{ kind: WORDS.nan }], 0);
      const launches = await catchLaunches(recorder, async () => {
        record();
        recorder.submit();
      });
      encodes.push((pass) => {
        for (const { encode } of launches) encode(pass);
      });
      if (i === 0) await check(candidate);
    }
    return await secondsOf(encodes);
  } finally {
    for (const { buffer } of own) buffer.destroy();
    recorder.destroy();
  }
}

/**
 * Measures every candidate and adds a line for each; one that fails is told of in its line, and
 * fails the test once the others are through.
 */
export async function compare(
  report: Report,
  candidates: readonly Candidate[],
  trial: Omit<Trial, "candidate"> & { cells(name: string, seconds: number): readonly string[] },
): Promise<void> {
  const failures: unknown[] = [];
  for (const candidate of candidates) {
    try {
      const seconds = await measure({ ...trial, candidate });
      report.line(trial.cells(candidate.name, seconds));
    } catch (cause) {
      failures.push(cause);
      const [first = ""] = (cause as Error).message.split("\n");
      report.line([...trial.cells(candidate.name, Number.NaN).slice(0, 2), `failed: ${first}`]);
    }
  }
  if (failures.length > 0) throw failures[0];
}

/** Floats `[first, first + count)` of a tensor. */
export async function floatsOf(tensor: Tensor, first: number, count: number) {
  const bytes = await download(tensor.buffer, tensor.offset + first * 4, count * 4);
  return new Float32Array(bytes);
}

export async function wordsOf(tensor: Tensor, first: number, count: number) {
  const bytes = await download(tensor.buffer, tensor.offset + first * 4, count * 4);
  return new Uint32Array(bytes);
}

/** Fails unless every value is near what f64 says, in units of the root of their mean square. */
export function expectNear(
  got: ArrayLike<number>,
  want: ArrayLike<number>,
  { tolerance, where }: { readonly tolerance: number; readonly where: string },
): void {
  const squares = Array.from(want, (value) => value * value).reduce((a, b) => a + b, 0);
  const typical = Math.sqrt(squares / want.length);
  for (let i = 0; i < want.length; i++) {
    const error = Math.abs(got[i]! - want[i]!) / Math.max(Math.abs(want[i]!), typical);
    const what = `${where} [${i}]: got ${got[i]}, want ${want[i]}`;
    expect(error, what).toBeLessThanOrEqual(tolerance);
  }
}

/** Holds the candidates of one class to the bits of the first of them. */
export class SameBits {
  readonly #first = new Map<string, Uint32Array>();

  expect({ name, numericClass }: Candidate, got: Float32Array): void {
    const bits = new Uint32Array(got.buffer, got.byteOffset, got.length);
    const first = this.#first.get(numericClass);
    if (first === undefined) this.#first.set(numericClass, bits);
    else
      expect(Buffer.from(bits.buffer).equals(Buffer.from(first.buffer)), `bits of ${name}`).toBe(
        true,
      );
  }
}

/** Adds to the file of the day. */
function save(text: string): void {
  const folder = process.env.WISP_BENCH_OUT;
  if (folder === undefined) return;
  mkdirSync(folder, { recursive: true });
  const name =
    adapter.name
      .toLowerCase()
      .match(/[a-z0-9]+/g)
      ?.join("-") ?? "unknown";
  const file = join(folder, `gpu-${name}-${new Date().toISOString().slice(0, 10)}.md`);
  const head = existsSync(file) ? "" : `# GPU bench, ${SCALE}\n\n${machine()}\n`;
  appendFileSync(file, `${head}\n${text}\n`);
}

/** The table of a section, printed and saved when it is through. */
export class Report {
  readonly #title: string;
  readonly #header: readonly string[];
  readonly #lines: (readonly string[])[] = [];
  readonly #texts: string[] = [];

  /** @param header None where all that there is to say is printed elsewhere. */
  constructor(title: string, header: readonly string[] = []) {
    this.#title = title;
    this.#header = header;
  }

  /** Cells that are missing at the end stay empty. */
  line(cells: readonly string[]): void {
    this.#lines.push(this.#header.map((_, i) => cells[i] ?? ""));
  }

  /** A text that has been printed already, for the file. */
  add(text: string): void {
    this.#texts.push(text);
  }

  finish(): void {
    const title = `## ${this.#title}`;
    if (this.#lines.length > 0) {
      const text = `${title}\n\n${markdown(table(this.#header, this.#lines))}`;
      console.log(`${machine()}, ${SCALE}\n${text}`);
      save(text);
    }
    if (this.#texts.length > 0) save([title, ...this.#texts.map(markdown)].join("\n\n"));
  }
}

/** A text whose tables have the lines around them that Markdown wants. */
function markdown(text: string): string {
  const lines = text.split("\n");
  const isTable = (i: number) => lines[i]?.startsWith("|") === true;
  return lines
    .flatMap((line, i) => {
      if (!isTable(i)) return isTable(i - 1) ? ["", line] : [line];
      if (isTable(i - 1)) return [line];
      const rule = line.replace(/[^|]/g, "-").replace(/-\|/g, ":|").replace(":|", "-|");
      return [...(i > 0 ? [""] : []), line, rule];
    })
    .join("\n");
}
