/**
 * What `wisp simulate` predicts of steps on several ranks beside what they take: the adapter's profile is
 * measured on one rank, and ranks of one process that share an adapter take turns in it.
 */
import "../support/driver_threads.ts";
import { expect, test } from "vitest";
import { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import { loadRanks } from "../../src/engine/ranks/rank_group.ts";
import type { StepRunner } from "../../src/engine/step/step_runner.ts";
import { DescribedModel } from "../../src/simulate/described_model.ts";
import { measureProfile } from "../../src/simulate/measure_profile.ts";
import { decodeBatch, prefillBatch, type SizedBatch } from "../../src/simulate/step_batches.ts";
import { stepTime } from "../../src/simulate/step_time.ts";
import { EMBEDDED_MODEL } from "../../test/support/checkpoints/embedded_model.ts";
import { folderSource } from "../../test/support/checkpoints/folder_source.ts";
import { device } from "../../test/support/devices/gpu.ts";
import { table } from "../support/table.ts";

const BATCHES = [1, 4, 8, 16, 32];
const PROMPTS = [32, 128];
const CONTEXT = 256;
const engine = { contextLength: 512, maxTotalTokens: 512 + 64, maxRowsPerStep: 128, triesInvariance: false, prefixCache: false, pageSize: 1 };

test("steps", { timeout: 600_000 }, async () => {
  const source = folderSource(EMBEDDED_MODEL);
  const checkpoint = await Checkpoint.open(source);
  const profile = await measureProfile(checkpoint, { device, ...engine }, { batches: BATCHES, prompts: PROMPTS, context: CONTEXT });
  console.log(JSON.stringify({ ...profile, shares: [...profile.shares].map(([k, v]) => [k, [...v].map(([a,b]) => `${a}: ${b.toFixed(3)}`).join(", ")]) }, null, 1));
  const rows = [];
  for (const ranks of [1, 2, 4]) {
    const described = await DescribedModel.open(source, { adapter: profile.adapter, ranks, engine });
    const model = await loadRanks(checkpoint, { device, ...engine, tensorParallelSize: ranks });
    const link = { latency: 0, bandwidth: 1e10 };
    const timed = { profile, link, ranks, sharing: ranks };
    for (const count of BATCHES) {
      const work = await described.decode(count, CONTEXT);
      rows.push(await line(`decode ${count}`, model.runner, decodeBatch(count, CONTEXT, 1), stepTime(work, timed), ranks));
    }
    for (const count of PROMPTS) {
      const work = await described.prefill(count, 0);
      rows.push(await line(`prefill ${count}`, model.runner, prefillBatch(count, 0, 1), stepTime(work, timed), ranks));
    }
    model.destroy();
  }
  console.log(table(["ranks", "step", "measured ms", "predicted ms", "error", "parts"], rows));
});

async function line(name: string, runner: StepRunner, { batch, sampled }: SizedBatch, time: any, ranks: number) {
  const submit = () => runner.submit(batch, sampled);
  await (await submit()).tokens;
  let least = Infinity;
  for (let run = 0; run < 5; run++) {
    let before = await submit();
    const started = performance.now();
    for (let i = 0; i < 8; i++) {
      const next = await submit();
      await before.tokens;
      before = next;
    }
    least = Math.min(least, (performance.now() - started) / 8);
    await before.tokens;
  }
  const predicted = time.seconds * 1e3;
  return [`${ranks}`, name, least.toFixed(3), predicted.toFixed(3), `${(100 * (predicted / least - 1)).toFixed(0)} %`, Object.entries(time.parts).map(([k, v]: any) => `${k} ${(v * 1e3).toFixed(2)}`).join(" ")];
}
