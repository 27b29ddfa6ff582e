/**
 * What two-batch overlap brings: steps of ranks over MPI with and without it, by how many sequences they
 * have and by what an exchange takes beside what it takes on this machine, as over a slower network. All
 * ranks compute on the same processor; waiting for the network takes none of it.
 *
 * `WISP_BENCH_ROUNDS` says how often each is started (2); the least of each counts.
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { EMBEDDED_MODEL } from "../../test/support/checkpoints/embedded_model.ts";
import type { EngineAnswers, EngineTask, SlowLink } from "../../test/support/mpi/engine_answers.ts";
import { lackOfMpi, Programs, tellLack } from "../../test/support/mpi/processes.ts";
import { engineOverMpi, MPI_WAYS } from "../../test/support/mpi/ways.ts";
import { table } from "../support/table.ts";

const ROUNDS = Number(process.env.WISP_BENCH_ROUNDS ?? 2);
const BATCHES = (process.env.WISP_BENCH_BATCHES ?? "2,8,32").split(",").map(Number);
const RANKS = Number(process.env.WISP_BENCH_RANKS ?? 2);
/** Tokens of an answer: the first comes with the prompt. */
const TOKENS = 17;
/** Megabits a second. */
const MEGABIT = 1e6 / 8 / 1e3;
const LINKS: readonly (readonly [name: string, link: SlowLink | undefined])[] = [
  ["as it is", undefined],
  ["1 ms", { milliseconds: 1, bytesPerMillisecond: Number.POSITIVE_INFINITY }],
  ["4 ms", { milliseconds: 4, bytesPerMillisecond: Number.POSITIVE_INFINITY }],
  ["100 Mbit/s", { milliseconds: 0, bytesPerMillisecond: 100 * MEGABIT }],
];

const lack = lackOfMpi();
tellLack(lack);
let programs: Programs;
beforeAll(async () => {
  if (lack === undefined) programs = await Programs.build();
});
afterAll(() => programs?.remove());

const request = (seed: number) => ({
  tokens: Array.from({ length: 8 }, (_, i) => 3 + ((31 * i + 7 * seed) % 500)),
  sampling: { temperature: 0, maxNewTokens: TOKENS, ignoreEos: true },
});

function taskOf(batch: number, twoBatchOverlap: boolean, link: SlowLink | undefined): EngineTask {
  const requests = Array.from({ length: batch }, (_, i) => request(i));
  return {
    model: EMBEDDED_MODEL,
    options: {
      ...{ maxTotalTokens: 32 * batch, contextLength: 32, prefixCache: false },
      ...{ maxRunningRequests: batch, twoBatchOverlap },
    },
    rounds: [requests, requests],
    ...(link && { link }),
  };
}

test.skipIf(lack !== undefined)("two-batch overlap", { timeout: 3_600_000 }, async () => {
  const rows: string[][] = [];
  for (const batch of BATCHES) {
    for (const [name, link] of LINKS) {
      const runs: EngineAnswers[][] = [[], []];
      for (let round = 0; round < ROUNDS; round++) {
        for (const which of [0, 1] as const) {
          const task = taskOf(batch, which === 1, link);
          runs[which]!.push(
            await engineOverMpi(programs, { size: RANKS, way: MPI_WAYS[0]!, task }),
          );
        }
      }
      const [whole, cut] = runs.map((own) => {
        expect(own[0]!.answers).toEqual(runs[0]![0]!.answers);
        return Math.min(...own.map(({ figures }) => figures.milliseconds));
      });
      const share = runs[1]![0]!.figures.overlappedSteps / (2 * TOKENS);
      const step = (milliseconds: number) => (milliseconds / (2 * TOKENS)).toFixed(2);
      rows.push([
        ...[`${batch}`, name, step(whole!), step(cut!)],
        ...[(whole! / cut!).toFixed(2), `${(100 * share).toFixed(0)} %`],
      ]);
    }
  }
  const head = ["requests", "exchange", "ms a step", "with overlap", "gain", "steps cut"];
  console.log(`${RANKS} ranks\n${table(head, rows)}`);
});
