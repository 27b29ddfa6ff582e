/**
 * What `wisp simulate` predicts of steps on several ranks beside what they take: the adapter's profile is
 * measured on one rank, and ranks of one process that share an adapter take turns in it and its host.
 *
 * The embedded model, decoding and reading prompts, on 1, 2 and 4 ranks. No prediction may be off by more
 * than a fifth: run it on a machine that does nothing else.
 */
import "../support/driver_threads.ts";
import { expect, test } from "vitest";
import { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import { loadRanks } from "../../src/engine/ranks/rank_group.ts";
import type { StepRunner } from "../../src/engine/step/step_runner.ts";
import { localGroup } from "../../src/parallel/local.ts";
import type { AdapterProfile } from "../../src/simulate/adapter_profile.ts";
import { DescribedModel } from "../../src/simulate/described_model.ts";
import type { Link } from "../../src/simulate/link.ts";
import { measureProfile } from "../../src/simulate/measure_profile.ts";
import { decodeBatch, prefillBatch, type SizedBatch } from "../../src/simulate/step_batches.ts";
import { type StepTime, stepTime } from "../../src/simulate/step_time.ts";
import { EMBEDDED_MODEL } from "../../test/support/checkpoints/embedded_model.ts";
import { folderSource } from "../../test/support/checkpoints/folder_source.ts";
import { device } from "../../test/support/devices/gpu.ts";
import { machine } from "../support/machine.ts";
import { table } from "../support/table.ts";

const BATCHES = [1, 4, 8, 16, 32] as const;
const PROMPTS = [32, 128] as const;
const CONTEXT = 256;
const RANKS = [1, 2, 4] as const;
const MOST_ERROR = 0.2;
/** Steps of a run, and runs, of which the least counts. */
const STEPS = 8;
const RUNS = 5;
const LINK_BYTES = [64, 2 ** 20] as const;

const engine = {
  contextLength: 512,
  maxTotalTokens: 576,
  maxRowsPerStep: 128,
  triesInvariance: false,
  prefixCache: false,
};

test("steps on several ranks beside predictions", { timeout: 600_000 }, async () => {
  const source = folderSource(EMBEDDED_MODEL);
  const checkpoint = await Checkpoint.open(source);
  const measured = { batches: BATCHES, prompts: PROMPTS, context: CONTEXT };
  const profile = await measureProfile(checkpoint, { device, ...engine }, measured);
  const rows: string[][] = [];
  let most = 0;
  for (const ranks of RANKS) {
    const described = await DescribedModel.open(source, {
      adapter: profile.adapter,
      ranks,
      engine,
    });
    const model = await loadRanks(checkpoint, { device, ...engine, tensorParallelSize: ranks });
    const timed = { profile, link: await localLink(ranks), ranks, sharing: ranks };
    const compare = async (name: string, batch: SizedBatch, predicted: StepTime) => {
      const seconds = await leastSeconds(model.runner, batch);
      const error = predicted.seconds / seconds - 1;
      most = Math.max(most, Math.abs(error));
      const figures = [1e3 * seconds, 1e3 * predicted.seconds].map((one) => one.toFixed(2));
      rows.push([`${ranks}`, name, ...figures, `${(100 * error).toFixed(0)} %`, predicted.bound]);
    };
    for (const count of BATCHES) {
      const predicted = stepTime(await described.decode(count, CONTEXT), timed);
      await compare(`decode, ${count}`, decodeBatch(count, CONTEXT, 1), predicted);
    }
    for (const count of PROMPTS) {
      const predicted = stepTime(await described.prefill(count, 0), timed);
      await compare(`prompt, ${count}`, prefillBatch(count, 0, 1), predicted);
    }
    model.destroy();
  }
  const header = ["ranks", "step", "measured ms", "predicted ms", "error", "bound"];
  console.log(`${machine()}\n${ratesOf(profile)}\n${table(header, rows)}`);
  expect(most).toBeLessThanOrEqual(MOST_ERROR);
});

function ratesOf({ copy, fma, launch, host }: AdapterProfile): string {
  const us = (seconds: number) => `${(1e6 * seconds).toFixed(1)} us`;
  const rates = `copy ${(copy / 1e9).toFixed(1)} GB/s, fma ${(fma / 1e9).toFixed(0)} GFLOP/s`;
  return `${rates}, launch ${us(launch)}, on the host ${us(host.launch)}, readback ${us(host.readback)}`;
}

/** What exchanges of a group of this process take, without any device. */
async function localLink(ranks: number): Promise<Link> {
  const group = localGroup(ranks);
  const seconds = async (bytes: number) => {
    const parts = group.map(() => new Uint8Array(bytes));
    const all = group.map(() => new Uint8Array(ranks * bytes));
    const exchange = { name: "link", counts: Array<number>(ranks).fill(bytes) };
    let least = Number.POSITIVE_INFINITY;
    for (let run = 0; run < 50; run++) {
      const started = performance.now();
      await Promise.all(group.map((one, i) => one.allGather(parts[i]!, all[i]!, exchange)));
      least = Math.min(least, (performance.now() - started) / 1e3);
    }
    return least;
  };
  const [few, many] = [await seconds(LINK_BYTES[0]), await seconds(LINK_BYTES[1])];
  const received = Math.max(ranks - 1, 1) * (LINK_BYTES[1] - LINK_BYTES[0]);
  return { latency: few, bandwidth: received / Math.max(many - few, 1e-9) };
}

/** Of a step that others follow, each submitted before the one in front of it is awaited. */
async function leastSeconds(runner: StepRunner, { batch, sampled }: SizedBatch): Promise<number> {
  const submit = () => runner.submit(batch, sampled);
  let least = Number.POSITIVE_INFINITY;
  for (let run = 0; run < RUNS; run++) {
    let before = await submit();
    await before.tokens;
    before = await submit();
    const started = performance.now();
    for (let step = 0; step < STEPS; step++) {
      const next = await submit();
      await before.tokens;
      before = next;
    }
    least = Math.min(least, (performance.now() - started) / 1e3 / STEPS);
    await before.tokens;
  }
  return least;
}
