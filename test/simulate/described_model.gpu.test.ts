/** A model on a device that is only described has the plan, the launches and the exchanges of a real one. */
import { expect, test } from "vitest";
import { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import type { WeightSource } from "../../src/checkpoint/source.ts";
import type { MemoryBudget } from "../../src/engine/load/memory_budget.ts";
import { loadRanks } from "../../src/engine/ranks/rank_group.ts";
import { LaunchTimer, type TimedLaunch } from "../../src/gpu/launch_timer.ts";
import { descriptionOf } from "../../src/simulate/described_device.ts";
import { DescribedModel } from "../../src/simulate/described_model.ts";
import { decodeBatch, prefillBatch, type SizedBatch } from "../../src/simulate/step_batches.ts";
import type { StepWork } from "../../src/simulate/step_work.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { randomGqa } from "../support/checkpoints/random_gqa.ts";
import { device } from "../support/devices/gpu.ts";

const engine = {
  contextLength: 64,
  maxTotalTokens: 128,
  maxRowsPerStep: 32,
  prefixCache: false,
  triesInvariance: false,
};
const adapter = descriptionOf(device);

const MODELS: readonly (readonly [string, () => WeightSource])[] = [
  ["latent attention and experts", () => folderSource(EMBEDDED_MODEL)],
  ["grouped queries", () => randomGqa()],
];

/** Every launch as text, in an order that does not depend on when it came. */
const ofWork = ({ launches }: StepWork) =>
  launches
    .flatMap(({ kernel, bytes, flops, count }) =>
      Array<string>(count).fill(`${kernel} ${bytes} ${flops}`),
    )
    .sort();
const ofTimed = (launches: readonly TimedLaunch[]) =>
  launches.map(({ kernel, cost }) => `${kernel} ${cost?.bytes ?? 0} ${cost?.flops ?? 0}`).sort();

const pick = ({ weightBytes, cacheBytes, cacheTokens, workspaceBytes }: MemoryBudget) => {
  return { weightBytes, cacheBytes, cacheTokens, workspaceBytes };
};

test.each(MODELS.flatMap(([model, open]) => [1, 2].map((ranks) => [model, ranks, open] as const)))(
  "%s on %d ranks",
  async (_, ranks, open) => {
    const source = open();
    const described = await DescribedModel.open(source, { adapter, ranks, engine });
    const options = { device, ...engine, tensorParallelSize: ranks };
    const loaded = await loadRanks(await Checkpoint.open(source), options);
    try {
      // Of a group all ranks' bytes are told together.
      const { weightBytes, cacheBytes, cacheTokens, workspaceBytes } = described.sizes;
      expect({
        weightBytes: ranks * weightBytes,
        cacheBytes: ranks * cacheBytes,
        workspaceBytes: ranks * workspaceBytes,
        cacheTokens,
      }).toEqual(pick(loaded.memoryBudget));
      const cases: readonly (readonly [SizedBatch, () => Promise<StepWork>])[] = [
        [decodeBatch(1, 40, 1), () => described.decode(1, 40)],
        [decodeBatch(5, 20, 1), () => described.decode(5, 20)],
        [prefillBatch(24, 16, 1), () => described.prefill(24, 16)],
      ];
      for (const [{ batch, sampled }, simulated] of cases) {
        const launches: TimedLaunch[] = [];
        const exchanges: string[] = [];
        const timer = new LaunchTimer(
          device,
          (submit) => launches.push(...submit.launches),
          (exchange) => exchanges.push(exchange),
        );
        const { recorder } = loaded.runner;
        recorder.timer = timer;
        await (await loaded.runner.submit(batch, sampled)).tokens;
        await timer.settled();
        recorder.timer = undefined;
        timer.destroy();
        const work = await simulated();
        expect(ofWork(work)).toEqual(ofTimed(launches));
        expect(work.exchanges.reduce((sum, { count }) => sum + count, 0)).toBe(exchanges.length);
        expect(exchanges.length > 0).toBe(ranks > 1);
      }
    } finally {
      loaded.destroy();
    }
  },
);
