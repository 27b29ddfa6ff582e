/**
 * Steps of whole models beside what they are made of: the step's time, alone and one of many, the sum
 * of what its launches take without the others, and the bound of each launch, max(bytes / copy rate,
 * operations / FMA rate). What is missing between the time of many and the sum are the waits between
 * launches, and what other launches leave in the processor's caches; a step alone waits for the host too.
 *
 * The least time of each counts. Keys and values in the cache are
 * zeros where no prompt was read: attention takes as long over those.
 *
 * @module
 */
import { performance } from "node:perf_hooks";
import { expect } from "vitest";
import type { WeightSource } from "../../src/checkpoint/source.ts";
import type { LoadOptions } from "../../src/engine/load/load_options.ts";
import type { LaunchCost } from "../../src/gpu/launch_cost.ts";
import type { Batch } from "../../src/layers/batch.ts";
import { ModelSession } from "../../test/support/engines/model_session.ts";
import { type AdapterRates, measureAdapter } from "../gpu/adapter_rates.ts";
import {
  catchLaunches,
  costsOfLaunches,
  kindsOfLaunches,
  type LaunchKind,
  timeKind,
} from "./launch_profile.ts";
import { machine } from "./machine.ts";
import { table } from "./table.ts";

const list = (name: string, otherwise: string) => (process.env[name] ?? otherwise).split(",");

/** Sequences that decode together, and tokens before each: `WISP_BATCHES`, `WISP_CONTEXTS`. */
export const BATCHES = list("WISP_BATCHES", "1,8,32").map(Number);
export const CONTEXTS = list("WISP_CONTEXTS", "128,4096").map(Number);
/** Rows of a prompt. */
const PROMPT = 128;
/** Tokens of a sequence beyond those before it: a page, however large. */
const MOST_PAGE = 64;
/** Steps that take less are repeated often. */
const SHORT_SECONDS = 0.1;
/** Runs of short steps, and of others; the one that takes least counts. */
const RUNS = 5;
const LONG_RUNS = 2;
const GREEDY = { temperature: 0, topP: 1, topK: Number.POSITIVE_INFINITY, seed: 0 };

interface Step {
  readonly title: string;
  readonly batch: Batch;
}

/** What one step took, in seconds. */
interface StepTimes {
  readonly title: string;
  readonly launches: number;
  /** From the host's first word to the ids, with nothing behind it. */
  readonly alone: number;
  /** From the end of one to the end of the next, each given to the GPU while the one before it runs. */
  readonly whole: number;
  readonly wholeCpu: number;
  /** Until the GPU has everything. */
  readonly host: number;
  /** Of the launches without each other. */
  readonly sum: number;
  readonly sumCpu: number;
  readonly bound: number;
}

export class StepBench {
  readonly #name: string;
  readonly #session: ModelSession;
  readonly #rates: AdapterRates;
  readonly #pageSize: number;
  readonly #pages: number;
  readonly #vocabulary: number;
  readonly #times: StepTimes[] = [];
  /** What the first sequence answered, by context: it must not depend on the others. */
  readonly #answers = new Map<string, number>();

  private constructor(name: string, session: ModelSession, rates: AdapterRates) {
    this.#name = name;
    this.#session = session;
    this.#rates = rates;
    this.#pageSize = session.loaded.options.pageSize;
    this.#pages = session.loaded.memoryBudget.cacheTokens / this.#pageSize;
    this.#vocabulary = session.loaded.definition.shape.vocabularySize;
  }

  /** @param options With fewer `maxTotalTokens` than the steps have, sequences share pages. */
  static async open(
    name: string,
    source: WeightSource,
    options: Partial<LoadOptions> = {},
  ): Promise<StepBench> {
    const batch = Math.max(...BATCHES);
    const context = Math.max(...CONTEXTS, PROMPT) + MOST_PAGE;
    const rates = await measureAdapter();
    const session = await ModelSession.open(source, {
      maxRunningRequests: batch,
      contextLength: context,
      maxRowsPerStep: Math.max(PROMPT, batch),
      maxTotalTokens: batch * context,
      ...options,
    });
    return new StepBench(name, session, rates);
  }

  close(): void {
    this.#session.close();
  }

  /**
   * Measures one row for each of `count` sequences with `context` tokens before.
   *
   * @returns What it prints.
   */
  decode(count: number, context: number): Promise<string> {
    const shared = this.#pages - Math.max(...BATCHES);
    const sequences = Array.from({ length: count }, (_, s) => {
      const full = Math.floor(context / this.#pageSize);
      // Those that are read may be shared; the page that is written is a sequence's own.
      const pages = Array.from({ length: full }, (_, p) => (s * full + p) % shared);
      return {
        ...{ phase: "decode" as const, queryStart: s, queryLength: 1, position: context },
        pageTable: [...pages, this.#pages - 1 - s],
      };
    });
    const sources = Uint32Array.from(sequences, (_, s) => (7 + s * 7919) % this.#vocabulary);
    const logitRows = Uint32Array.from(sequences.keys());
    const title = `decode, batch ${count}, ${context} tokens before`;
    return this.#measure({ title, batch: { sequences, sources, logitRows } }, `${context}`);
  }

  /** The same of a prompt's first rows. */
  prefill(): Promise<string> {
    const sources = Uint32Array.from(
      { length: PROMPT },
      (_, i) => 7 + ((i * 7919) % (this.#vocabulary - 7)),
    );
    const pageTable = Array.from({ length: Math.ceil(PROMPT / this.#pageSize) }, (_, p) => p);
    const rows = { queryStart: 0, queryLength: PROMPT, position: 0, pageTable };
    const sequences = [{ phase: "prefill" as const, ...rows }];
    const batch = { sequences, sources, logitRows: Uint32Array.of(PROMPT - 1) };
    return this.#measure({ title: `prefill of ${PROMPT} rows`, batch }, "prefill");
  }

  async #measure({ title, batch }: Step, answerOf: string): Promise<string> {
    const { runner } = this.#session.loaded;
    const sampled = Array.from(batch.logitRows, () => ({ sampling: GREEDY, position: 0 }));
    const least = { alone: Number.POSITIVE_INFINITY, host: Number.POSITIVE_INFINITY };
    let first: readonly number[] | undefined;
    const expectSame = async ({ tokens }: { readonly tokens: Promise<Uint32Array> }) => {
      const ids = [...(await tokens)];
      first ??= ids;
      expect(ids).toEqual(first);
    };
    const submit = () => runner.submit(batch, sampled);
    const step = async () => {
      const started = performance.now();
      const given = await submit();
      least.host = Math.min(least.host, (performance.now() - started) / 1e3);
      await expectSame(given);
      least.alone = Math.min(least.alone, (performance.now() - started) / 1e3);
    };
    await step();
    const launches = await catchLaunches(runner.recorder, step);
    const costs = await costsOfLaunches(runner.recorder, step);
    expect(costs).toHaveLength(launches.length);
    const answer = this.#answers.get(answerOf) ?? first![0]!;
    expect(first![0]).toBe(answer);
    this.#answers.set(answerOf, answer);

    const lines: KindLine[] = [];
    for (const kind of kindsOfLaunches(launches)) {
      // Lists of experts are what a step left there, not what sorting alone made of them.
      if (kind.label.startsWith("moe/") || least.alone < SHORT_SECONDS) await step();
      const time = await timeKind(kind);
      const known = kind.places.map((i) => costs[i]);
      const isKnown = !known.includes(undefined);
      const { bytes = 0, flops = 0 } = known[0] ?? {};
      lines.push({ kind, ...time, bytes, flops, bound: this.#bound(known), isKnown });
    }
    const count = Math.max(2, Math.ceil(SHORT_SECONDS / least.alone));
    const runs = least.alone < SHORT_SECONDS ? RUNS : LONG_RUNS;
    const run = await leastRun({ runs, count }, submit, expectSame);
    const total = (of: "seconds" | "cpuSeconds" | "bound") =>
      lines.reduce((sum, line) => sum + line[of], 0);
    const sums = { sum: total("seconds"), sumCpu: total("cpuSeconds"), bound: total("bound") };
    const times = { title, launches: launches.length, ...least, ...run, ...sums };
    this.#times.push(times);
    const text = `${this.#name}, ${title}\n${kindTable(lines, times)}`;
    console.log(text);
    return text;
  }

  #bound(costs: readonly (LaunchCost | undefined)[]): number {
    const { copy, fma } = this.#rates;
    const seconds = costs.map((one) => (one ? Math.max(one.bytes / copy, one.flops / fma) : 0));
    return seconds.reduce((sum, one) => sum + one, 0);
  }

  /** A line for each step measured so far. */
  summary(): string {
    const { copy, fma, launch } = this.#rates;
    const rates =
      `copy ${(copy / 1e9).toFixed(1)} GB/s, fma ${(fma / 1e9).toFixed(0)} GFLOP/s, ` +
      `launch ${(launch * 1e6).toFixed(1)} us`;
    const header = ["step", "launches", "alone ms", "host ms", "ms", "cpu ms"];
    const sums = ["sum of launches", "cpu"];
    const ratios = ["step / sum", "cpu", "bound ms", "bound / step"];
    const rows = this.#times.map((one) => [
      one.title,
      `${one.launches}`,
      ...[one.alone, one.host, one.whole, one.wholeCpu, one.sum, one.sumCpu].map(ms),
      (one.whole / one.sum).toFixed(2),
      (one.wholeCpu / one.sumCpu).toFixed(2),
      ms(one.bound),
      percent(one.bound, one.whole),
    ]);
    return `${machine()}\n${this.#name}: ${rates}\n${table([...header, ...sums, ...ratios], rows)}`;
  }
}

/**
 * What one of `count` steps takes where each is submitted before the one in front of it is awaited, as
 * an engine runs them: the least of several runs.
 */
async function leastRun<S>(
  { runs, count }: { readonly runs: number; readonly count: number },
  submit: () => Promise<S>,
  done: (step: S) => Promise<void>,
): Promise<Pick<StepTimes, "whole" | "wholeCpu">> {
  const least = { whole: Number.POSITIVE_INFINITY, wholeCpu: Number.POSITIVE_INFINITY };
  for (let i = 0; i < runs; i++) {
    let before = await submit();
    const cpu = process.cpuUsage();
    const started = performance.now();
    for (let n = 0; n < count; n++) {
      const next = await submit();
      await done(before);
      before = next;
    }
    least.whole = Math.min(least.whole, (performance.now() - started) / 1e3 / count);
    const { user, system } = process.cpuUsage(cpu);
    least.wholeCpu = Math.min(least.wholeCpu, (user + system) / 1e6 / count);
    await done(before);
  }
  return least;
}

interface KindLine {
  readonly kind: LaunchKind;
  readonly seconds: number;
  readonly cpuSeconds: number;
  /** Of the first launch. */
  readonly bytes: number;
  readonly flops: number;
  /** Of all. */
  readonly bound: number;
  /** False where a wrapper does not say what its kernel has to do. */
  readonly isKnown: boolean;
}

const ms = (seconds: number) => (seconds * 1e3).toFixed(3);
const percent = (part: number, of: number) => `${((100 * part) / of).toFixed(1)} %`;

function kindTable(lines: readonly KindLine[], times: StepTimes): string {
  const { whole, wholeCpu, sum, sumCpu } = times;
  const header = ["kernel", "grid", "launches", "KB each", "MFLOP each"];
  const taken = ["ms", "ms each", "cpu ms each", "share of cpu", "of bound"];
  const rows = [...lines]
    .sort((a, b) => b.cpuSeconds - a.cpuSeconds)
    .map(({ kind, seconds, cpuSeconds, bytes, flops, bound, isKnown }) => [
      kind.label.slice(0, kind.label.indexOf(" ")),
      kind.grid,
      `${kind.places.length}`,
      isKnown ? (bytes / 1e3).toFixed(1) : "",
      isKnown ? (flops / 1e6).toFixed(2) : "",
      ms(seconds),
      ms(seconds / kind.places.length),
      ms(cpuSeconds / kind.places.length),
      percent(cpuSeconds, sumCpu),
      isKnown ? percent(bound, seconds) : "unknown",
    ]);
  const steps = `the step ${ms(whole)} ms, cpu ${ms(wholeCpu)}`;
  const together = `its launches ${ms(sum)} ms, cpu ${ms(sumCpu)}`;
  return `${table([...header, ...taken], rows)}\n${steps}; ${together}`;
}
