/**
 * What two-batch overlap brings: steps of ranks over MPI with and without it, by how many sequences they
 * have and by what an exchange takes beside what it takes on this machine, as over a slower network. All
 * ranks compute on the same processor; waiting for the network takes none of it.
 *
 * `WISP_BENCH_ROUNDS` says how often each is started (2), of which the least counts, `WISP_BENCH_CASES`
 * which cases and `WISP_BENCH_LINKS` which exchanges, by their numbers from 0, `WISP_BENCH_GROUPS` in how
 * many attention groups the ranks are (1), which share the requests out.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { EMBEDDED_MODEL } from "../../test/support/checkpoints/embedded_model.ts";
import type { EngineAnswers, EngineTask, SlowLink } from "../../test/support/mpi/engine_answers.ts";
import { lackOfMpi, Programs, tellLack } from "../../test/support/mpi/processes.ts";
import { engineOverMpi, MPI_WAYS } from "../../test/support/mpi/ways.ts";
import { table } from "../support/table.ts";

const ROUNDS = Number(process.env.WISP_BENCH_ROUNDS ?? 2);
const RANKS = Number(process.env.WISP_BENCH_RANKS ?? 2);
const GROUPS = Number(process.env.WISP_BENCH_GROUPS ?? 1);
/** Requests at once, tokens of a prompt and of an answer: the first comes with the prompt. */
const CASES = [
  { name: "8 requests generate", batch: 8, prompt: 8, tokens: 17 },
  { name: "32 requests generate", batch: 32, prompt: 8, tokens: 17 },
  { name: "8 prompts of 64 tokens", batch: 8, prompt: 64, tokens: 1 },
] as const;
type Case = (typeof CASES)[number];
const CHOSEN = process.env.WISP_BENCH_CASES?.split(",").map(Number) ?? [...CASES.keys()];
/** Megabits a second. */
const MEGABIT = 1e6 / 8 / 1e3;
const LINKS: readonly (readonly [name: string, link: SlowLink | undefined])[] = [
  ["as it is", undefined],
  ["1 ms", { milliseconds: 1, bytesPerMillisecond: Number.POSITIVE_INFINITY }],
  ["4 ms", { milliseconds: 4, bytesPerMillisecond: Number.POSITIVE_INFINITY }],
  ["100 Mbit/s", { milliseconds: 0, bytesPerMillisecond: 100 * MEGABIT }],
];
const CHOSEN_LINKS = process.env.WISP_BENCH_LINKS?.split(",").map(Number) ?? [...LINKS.keys()];

const lack = lackOfMpi();
tellLack(lack);
let programs: Programs;
beforeAll(async () => {
  if (lack === undefined) programs = await Programs.build();
});
afterAll(() => programs?.remove());

/** Of each case, one behind the other. */
const REPEATS = 4;

const request = (seed: number, { prompt, tokens }: Case) => ({
  tokens: Array.from({ length: prompt }, (_, i) => 3 + ((31 * i + 7 * seed) % 500)),
  sampling: { temperature: 0, maxNewTokens: tokens, ignoreEos: true },
});

function taskOf(one: Case, twoBatchOverlap: boolean, link: SlowLink | undefined): EngineTask {
  const { batch, prompt, tokens } = one;
  const requests = Array.from({ length: batch }, (_, i) => request(i, one));
  const contextLength = prompt + tokens + 8;
  return {
    model: EMBEDDED_MODEL,
    groups: GROUPS,
    options: {
      ...{ maxTotalTokens: contextLength * batch, contextLength, prefixCache: false },
      ...{ maxRunningRequests: batch, maxRowsPerStep: batch * prompt, twoBatchOverlap },
    },
    rounds: Array.from({ length: REPEATS }, () => requests),
    ...(link && { link }),
  };
}

test.skipIf(lack !== undefined)("two-batch overlap", { timeout: 3_600_000 }, async () => {
  const rows: string[][] = [];
  for (const chosen of CHOSEN) {
    const one = CASES[chosen]!;
    const steps = REPEATS * one.tokens;
    for (const number of CHOSEN_LINKS) {
      const [name, link] = LINKS[number]!;
      const runs: EngineAnswers[][] = [[], []];
      for (let round = 0; round < ROUNDS; round++) {
        for (const which of [0, 1] as const) {
          const task = taskOf(one, which === 1, link);
          runs[which]!.push(
            await engineOverMpi(programs, { size: RANKS, way: MPI_WAYS[0]!, task }),
          );
        }
      }
      const [whole, cut] = runs.map((own) => {
        expect(own[0]!.answers).toEqual(runs[0]![0]!.answers);
        return Math.min(...own.map(({ figures }) => figures.milliseconds));
      });
      const share = runs[1]![0]!.figures.overlappedSteps / (steps * GROUPS);
      const step = (milliseconds: number) => (milliseconds / steps).toFixed(2);
      rows.push([
        ...[one.name, name, step(whole!), step(cut!)],
        ...[(whole! / cut!).toFixed(2), `${(100 * share).toFixed(0)} %`],
      ]);
    }
  }
  const head = ["steps", "exchange", "ms a step", "with overlap", "gain", "steps cut"];
  console.log(`${RANKS} ranks, groups: ${GROUPS}\n${table(head, rows)}`);
});
