/**
 * What `wisp simulate` predicts of steps on several ranks beside what they take: the adapter's profile is
 * measured on one rank; ranks of one process take turns in the adapter and its host, those that MPI joins
 * in the cores of this machine.
 *
 * The embedded model, decoding and reading prompts, on 1, 2 and 4 ranks. No prediction may be off by more
 * than a fifth: run it on a machine that does nothing else.
 */
import "../support/driver_threads.ts";
import { availableParallelism } from "node:os";
import { afterAll, beforeAll, expect, test } from "vitest";
import { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import { loadRanks } from "../../src/engine/ranks/rank_group.ts";
import { localGroup } from "../../src/parallel/local.ts";
import type { AdapterProfile } from "../../src/simulate/adapter_profile.ts";
import { DescribedModel } from "../../src/simulate/described_model.ts";
import { measureProfile } from "../../src/simulate/measure_profile.ts";
import { decodeBatch, prefillBatch, type SizedBatch } from "../../src/simulate/step_batches.ts";
import { stepTime } from "../../src/simulate/step_time.ts";
import type { StepWork } from "../../src/simulate/step_work.ts";
import { EMBEDDED_MODEL } from "../../test/support/checkpoints/embedded_model.ts";
import { folderSource } from "../../test/support/checkpoints/folder_source.ts";
import { device } from "../../test/support/devices/gpu.ts";
import {
  LauncherProcess,
  lackOfMpi,
  Programs,
  tellLack,
} from "../../test/support/mpi/processes.ts";
import { leastSeconds, linkOf, type StepTimes } from "../../test/support/mpi/step_times.ts";
import { machine } from "../support/machine.ts";
import { table } from "../support/table.ts";

const BATCHES = [1, 4, 8, 16, 32] as const;
const PROMPTS = [32, 128] as const;
const CONTEXT = 256;
const RANKS = [1, 2, 4] as const;
const MOST_ERROR = 0.2;

const engine = {
  contextLength: 512,
  maxTotalTokens: 576,
  maxRowsPerStep: 128,
  triesInvariance: false,
  prefixCache: false,
};

const MEASURED = { batches: BATCHES, prompts: PROMPTS, context: CONTEXT };
const source = folderSource(EMBEDDED_MODEL);
let checkpoint: Checkpoint;
let profile: AdapterProfile;
let programs: Programs;
const lack = lackOfMpi();
tellLack(lack);
beforeAll(async () => {
  if (lack === undefined) programs = await Programs.build();
  checkpoint = await Checkpoint.open(source);
  profile = await measureProfile(checkpoint, { device, ...engine }, MEASURED);
}, 600_000);
afterAll(() => programs?.remove());

/** Prints what was measured beside what is predicted, and says how far off the worst is. */
async function compare(
  measured: ReadonlyMap<number, StepTimes>,
  sharing: (ranks: number) => number,
): Promise<number> {
  const rows: string[][] = [];
  let most = 0;
  for (const [ranks, { decode, prefill, link }] of measured) {
    const given = { adapter: profile.adapter, ranks, engine };
    const described = await DescribedModel.open(source, given);
    const timed = { profile, link, ranks, sharing: sharing(ranks) };
    const add = (name: string, seconds: number, work: StepWork) => {
      const predicted = stepTime(work, timed);
      const error = predicted.seconds / seconds - 1;
      most = Math.max(most, Math.abs(error));
      const figures = [1e3 * seconds, 1e3 * predicted.seconds].map((one) => one.toFixed(2));
      rows.push([`${ranks}`, name, ...figures, `${(100 * error).toFixed(0)} %`, predicted.bound]);
    };
    for (const [i, count] of BATCHES.entries()) {
      add(`decode, ${count}`, decode[i]!, await described.decode(count, CONTEXT));
    }
    for (const [i, count] of PROMPTS.entries()) {
      add(`prompt, ${count}`, prefill[i]!, await described.prefill(count, 0));
    }
  }
  const header = ["ranks", "step", "measured ms", "predicted ms", "error", "bound"];
  console.log(`${machine()}\n${ratesOf(profile)}\n${table(header, rows)}`);
  return most;
}

test("steps on ranks of one process beside predictions", { timeout: 600_000 }, async () => {
  const measured = new Map<number, StepTimes>();
  for (const ranks of RANKS) {
    const model = await loadRanks(checkpoint, { device, ...engine, tensorParallelSize: ranks });
    const seconds = async (batches: readonly SizedBatch[]) => {
      const all: number[] = [];
      for (const batch of batches) all.push(await leastSeconds(model.runner, batch));
      return all;
    };
    const decode = await seconds(BATCHES.map((count) => decodeBatch(count, CONTEXT, 1)));
    const prefill = await seconds(PROMPTS.map((count) => prefillBatch(count, 0, 1)));
    measured.set(ranks, { decode, prefill, link: await linkOf(localGroup(ranks)) });
    model.destroy();
  }
  expect(await compare(measured, (ranks) => ranks)).toBeLessThanOrEqual(MOST_ERROR);
});

/** Of ranks that are processes, each with a driver that computes on the thread that asks it to. */
async function timesOverMpi(ranks: number): Promise<StepTimes> {
  const argument = JSON.stringify({ model: EMBEDDED_MODEL, engine, ...MEASURED });
  const given = { program: "step times", argument, ranksPerNode: ranks };
  const launcher = new LauncherProcess(programs, given);
  const { code } = await launcher.ended;
  await launcher.closed();
  expect(code, launcher.stderr).toBe(0);
  return JSON.parse(/^times: (.*)$/m.exec(launcher.stdout)![1]!);
}

/** How much longer processes that have nothing to do with each other take, one for each core. */
async function contention(): Promise<number> {
  const alone = await timesOverMpi(1);
  const cores = Array.from({ length: availableParallelism() }, () => timesOverMpi(1));
  const together = await Promise.all(cores);
  const ratios = together.flatMap(({ decode, prefill }) => [
    ...decode.map((seconds, i) => seconds / alone.decode[i]!),
    ...prefill.map((seconds, i) => seconds / alone.prefill[i]!),
  ]);
  ratios.sort((a, b) => a - b);
  return Math.max(ratios[ratios.length >> 1]!, 1);
}

const isLeftOut = lack !== undefined;
test.skipIf(isLeftOut)("steps on ranks over MPI", { timeout: 600_000 }, async () => {
  const slower = await contention();
  console.log(`Processes on all cores take ${slower.toFixed(2)} times as long as one`);
  const measured = new Map<number, StepTimes>();
  for (const ranks of [2, 4]) measured.set(ranks, await timesOverMpi(ranks));
  const inCores = (ranks: number) => slower * Math.max(ranks / availableParallelism(), 1);
  // Ranks that compute at once wait for the one with the most to do, and none is foreseen to have more.
  console.log(`Off by ${(100 * (await compare(measured, inCores))).toFixed(0)} % at most`);
});

function ratesOf({ copy, fma, launch, host }: AdapterProfile): string {
  const us = (seconds: number) => `${(1e6 * seconds).toFixed(1)} us`;
  const rates = `copy ${(copy / 1e9).toFixed(1)} GB/s, fma ${(fma / 1e9).toFixed(0)} GFLOP/s`;
  return `${rates}, launch ${us(launch)}, on the host ${us(host.launch)}, readback ${us(host.readback)}`;
}
