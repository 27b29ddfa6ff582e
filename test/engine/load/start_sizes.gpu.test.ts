import { expect, test } from "vitest";
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import { loadModel } from "../../../src/engine/load/load.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import type { StepLimit } from "../../../src/engine/load/start_sizes.ts";
import { randomGqa } from "../../support/checkpoints/random_gqa.ts";
import { device } from "../../support/devices/gpu.ts";

const stopped = new Error("stopped before anything is read");

async function limit(options: Partial<LoadOptions>): Promise<StepLimit | undefined> {
  let step: StepLimit | undefined;
  const onPlan: LoadOptions["onPlan"] = (sizes) => {
    step = sizes.step;
    throw stopped;
  };
  const checkpoint = await Checkpoint.open(randomGqa());
  await expect(loadModel(checkpoint, { device, ...options, onPlan })).rejects.toBe(stopped);
  return step;
}

test("a start says what a step takes of prompts, and what keeps it from more", async () => {
  const rows = { promptTokens: 128, bound: "rows" };
  expect(await limit({})).toEqual(rows);
  expect(await limit({ chunkedPrefillSize: -1 })).toEqual(rows);
  expect(await limit({ chunkedPrefillSize: 700 })).toEqual(rows);
  const asked = { chunkedPrefillSize: 48 };
  expect(await limit(asked)).toEqual({ promptTokens: 48, bound: "asked" });
  const narrow = { maxBindingSize: 66_000, contextLength: 64, maxRunningRequests: 1 };
  const fitted = await limit({ ...narrow, chunkedPrefillSize: 700, maxRowsPerStep: 4096 });
  expect(fitted).toMatchObject({ bound: "binding" });
  expect(fitted!.promptTokens).toBeLessThan(128);
});
