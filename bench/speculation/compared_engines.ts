/**
 * Engines with and without drafts, side by side.
 *
 * @module
 */
import { performance } from "node:perf_hooks";
import { expect } from "vitest";
import type { WeightSource } from "../../src/checkpoint/source.ts";
import { Engine } from "../../src/engine/engine.ts";
import type { Tuning } from "../../src/gpu/tuning.ts";
import type { SpeculationOptions } from "../../src/speculation/speculation_options.ts";
import { folderSource } from "../../test/support/checkpoints/folder_source.ts";
import { device } from "../../test/support/devices/gpu.ts";
import { chat, complete, EMBEDDED_MODEL } from "../../test/support/engines/engine.ts";
import { median, noiseOf } from "../support/noise.ts";
import { table } from "../support/table.ts";

/** Requests at once; `WISP_BATCHES`, with commas, says others. */
export const BATCHES = (process.env.WISP_BATCHES ?? "1,4,16,32").split(",").map(Number);
/** Rounds of each batch: so many at least, and as many as there is time for. */
const ROUNDS = { least: 5, most: 25, seconds: 6 };
const LONGEST = 100;
/** Of the speed without drafts that is left where their number follows what they bring, but for noise. */
const LEAST = 0.97;
/** Prompts of the model's own subjects, which its module has learned too. */
export const CHATS = [
  "Tell me a story.",
  "What is 12 + 7?",
  "What is the capital of Japan?",
  "How are you?",
  "What can you do?",
  "What is 34 + 5?",
];
/** The second engine of settings that are compared for losses is as the first. */
export const CONTROL = 1;

export interface Setting {
  readonly name: string;
  readonly speculation?: SpeculationOptions;
  /** Default: the embedded model. */
  readonly source?: WeightSource;
  readonly draftModel?: WeightSource;
  /** Default: that of the adapter. */
  readonly tuning?: Tuning;
}

/** Engines that answer the same prompts side by side; the first has no drafts. */
export async function openEngines(settings: readonly Setting[]): Promise<readonly Engine[]> {
  const engines: Engine[] = [];
  for (const { source = folderSource(EMBEDDED_MODEL), ...setting } of settings) {
    const { speculation, draftModel, tuning } = setting;
    const given = {
      device,
      tuning,
      maxRowsPerStep: 256,
      maxTotalTokens: 8192,
      triesInvariance: false,
    };
    const drafts = { ...(speculation && { speculation }), ...(draftModel && { draftModel }) };
    engines.push(await Engine.load(source, { ...given, ...drafts }));
  }
  return engines;
}

/** Tokens of all answers, and the seconds that they took together. */
export async function answerAll(
  engine: Engine,
  prompts: readonly string[],
  maxNewTokens = LONGEST,
) {
  const started = performance.now();
  const answers = await Promise.all(
    prompts.map((content) => {
      const sampling = { temperature: 0, maxNewTokens };
      return complete(engine, { messages: chat(content), sampling });
    }),
  );
  const seconds = (performance.now() - started) / 1000;
  return { seconds, answers: answers.map(({ tokens }) => tokens) };
}

interface Compared {
  /** Requests at once. */
  readonly batches: readonly number[];
  /** At least. */
  readonly rounds: number;
  /** Of each answer. */
  readonly maxNewTokens: number;
}

/**
 * Prints tokens per second of each engine by batch, and checks that all answer alike.
 *
 * @returns By batch, how many times as fast as the first engine each other one is, in each round: all take
 *   turns in it, as a machine's speed changes from round to round.
 */
export async function compare(
  settings: readonly Setting[],
  engines: readonly Engine[],
  contents: readonly string[],
  given: Partial<Compared> = {},
): Promise<Speedups> {
  const { batches = BATCHES, rounds = ROUNDS.least, maxNewTokens } = given;
  const rows: string[][] = [];
  const speedups = new Map<number, readonly (readonly number[])[]>();
  for (const batch of batches) {
    const prompts = Array.from({ length: batch }, (_, i) => contents[i % contents.length]!);
    // What is compiled at the first use, and prompts, which are cached then.
    const want = await answerAll(engines[0]!, prompts, maxNewTokens);
    for (const engine of engines) await answerAll(engine, prompts, maxNewTokens);
    const times = engines.map((): number[] => []);
    const begun = performance.now();
    for (let round = 0; round < ROUNDS.most; round++) {
      const isLate = performance.now() - begun > 1000 * ROUNDS.seconds;
      if (round >= rounds && isLate) break;
      // Each is first in turn: none is always behind the same other one.
      for (let turn = 0; turn < engines.length; turn++) {
        const i = (turn + round) % engines.length;
        const { seconds, answers } = await answerAll(engines[i]!, prompts, maxNewTokens);
        expect(answers, `${settings[i]!.name}, batch ${batch}`).toEqual(want.answers);
        times[i]!.push(seconds);
      }
    }
    const [plain, ...others] = times;
    const ratios = others.map((own) => own.map((seconds, i) => plain![i]! / seconds));
    const speed = want.answers.reduce((sum, { length }) => sum + length, 0) / median(plain!);
    speedups.set(batch, ratios);
    rows.push([
      `${batch}`,
      speed.toFixed(0),
      ...ratios.map(median).map((ratio) => `${(ratio * speed).toFixed(0)} (${ratio.toFixed(2)}x)`),
    ]);
  }
  console.log(table(["tokens/s, batch", ...settings.map(({ name }) => name)], rows));
  return speedups;
}

/** By batch: of each engine but the first the speeds of all rounds, to the first one's. */
export type Speedups = ReadonlyMap<number, readonly (readonly number[])[]>;

/** Where drafts do not pay, answers take as long as without them, but for noise. */
export function expectNoLoss(speedups: Speedups, engine: number): void {
  for (const [batch, ratios] of speedups) {
    const noise = noiseOf(ratios[CONTROL - 1]!);
    const found = median(ratios[engine - 1]!);
    const said = `batch ${batch}: ${found.toFixed(3)}, noise ${noise.toFixed(3)}`;
    console.log(`engine ${engine}, ${said}`);
    expect(found, said).toBeGreaterThanOrEqual(LEAST - noise);
  }
}
