/**
 * What a step costs on one rank and on several: on one thread, on threads, over MPI; of one model on one
 * device. Ranks that share the processor compute no faster, so this shows what they cost each other. In
 * turns, the least of each. A profile of a run of its own says what the host of the first rank does.
 *
 * `WISP_BENCH_ROUNDS` says how often each is started (3).
 */
import { readFileSync } from "node:fs";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import { EMBEDDED_MODEL } from "../../test/support/checkpoints/embedded_model.ts";
import type { EngineAnswers, EngineTask } from "../../test/support/mpi/engine_answers.ts";
import { lackOfMpi, Programs, tellLack } from "../../test/support/mpi/processes.ts";
import { engineOverMpi, MPI_WAYS } from "../../test/support/mpi/ways.ts";
import { engineOnOneThread, engineOnThreads } from "../../test/support/threads/run_threads.ts";
import { table } from "../support/table.ts";

const ROUNDS = Number(process.env.WISP_BENCH_ROUNDS ?? 3);
/** Tokens of an answer: the first comes with the prompt. */
const TOKENS = 65;

const lack = lackOfMpi();
tellLack(lack);
let programs: Programs;
beforeAll(async () => {
  programs = await Programs.build();
});
afterAll(() => programs?.remove());

const request = {
  tokens: Array.from({ length: 12 }, (_, i) => 3 + 31 * i),
  sampling: { temperature: 0, maxNewTokens: TOKENS, ignoreEos: true },
  logprobs: { topCount: 1 },
};
const task: EngineTask = {
  model: EMBEDDED_MODEL,
  options: { maxTotalTokens: 512, contextLength: 256, prefixCache: false },
  rounds: [[request], [request]],
};
interface Layout {
  readonly size: number;
  readonly way: string;
  readonly run: (task: EngineTask) => Promise<EngineAnswers>;
}

const onOneThread = (size: number): Layout => ({
  size,
  way: size === 1 ? "" : "one thread",
  run: (task) => {
    const options = { ...task.options, tensorParallelSize: size };
    return engineOnOneThread(programs, { ...task, options });
  },
});
const onThreads = (size: number): Layout => ({
  size,
  way: "threads",
  run: (given) => engineOnThreads(programs, { size, task: given }),
});
const overMpi = (size: number): readonly Layout[] =>
  lack === undefined
    ? MPI_WAYS.slice(0, 2).map((way) => ({
        size,
        way: way.name,
        run: (given) => engineOverMpi(programs, { size, way, task: given }),
      }))
    : [];
const layoutsOf = (size: number): readonly Layout[] => [
  onOneThread(1),
  ...[onOneThread(size), onThreads(size), ...overMpi(size)],
];
/** Of all steps of both rounds. */
const STEPS = 2 * TOKENS;
const { num_hidden_layers: LAYERS } = JSON.parse(
  readFileSync(join(EMBEDDED_MODEL, "config.json"), "utf8"),
);

test.each([2, 4])("steps of one rank and of %i", { timeout: 3_600_000 }, async (ranks) => {
  const layouts = layoutsOf(ranks);
  const runs: EngineAnswers[][] = layouts.map(() => []);
  const hosts: number[] = [];
  for (let round = 0; round < ROUNDS; round++) {
    for (const [i, { run }] of layouts.entries()) runs[i]!.push(await run(task));
  }
  for (const { run } of layouts) {
    const { answers, figures } = await run({ ...task, isProfiled: true });
    expect(answers).toEqual(runs[0]![0]!.answers);
    const microseconds = figures.hostMicroseconds!;
    expect(microseconds).toBeGreaterThan(0);
    expect(microseconds).toBeLessThan((1000 * figures.milliseconds) / STEPS);
    hosts.push(microseconds);
  }
  const [alone] = runs;
  const rows = runs.map((own, i) => {
    for (const one of own) expect(one.answers).toEqual(alone![0]!.answers);
    const best = own.reduce((a, b) => (a.figures.milliseconds <= b.figures.milliseconds ? a : b));
    const step = best.figures.milliseconds / STEPS;
    const least = Math.min(...alone!.map((one) => one.figures.milliseconds)) / STEPS;
    const { size, way } = layouts[i]!;
    const host = [hosts[i]!, hosts[i]! / LAYERS].map((one) => one.toFixed(0));
    const more = size === 1 ? "" : ((1000 * (step - least)) / LAYERS).toFixed(0);
    const told = [`${size}`, way, step.toFixed(2), (step / least).toFixed(2)];
    return [...told, ...exchangesOf(best), more, ...host];
  });
  const head = [
    ...["ranks", "way", "ms a step", "beside one", "exchanges", "us each", "more us a layer"],
    ...["host us a step", "a layer"],
  ];
  console.log(table(head, rows));
});

/** How many a step has, and the microseconds of each, where ranks are apart. */
function exchangesOf({ exchanges }: EngineAnswers): readonly string[] {
  if (exchanges === undefined) return ["", ""];
  const { count, milliseconds } = exchanges;
  return [(count / STEPS).toFixed(1), ((1000 * milliseconds) / count).toFixed(0)];
}
