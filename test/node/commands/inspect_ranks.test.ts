import { expect, test } from "vitest";
import type { CheckpointReport } from "../../../src/engine/checkpoint_report.ts";
import { inspectCheckpoint } from "../../../src/engine/load/inspect_checkpoint.ts";
import { formatReport } from "../../../src/node/commands/inspect_report.ts";
import { EMBEDDED_MODEL } from "../../support/checkpoints/embedded_model.ts";
import { randomGqa, SMALL_GQA } from "../../support/checkpoints/random_gqa.ts";
import { startCommand } from "../../support/package/run_command.ts";

const CONFIG = { ...SMALL_GQA.llama, num_attention_heads: 8, num_key_value_heads: 2 };

test("inspectCheckpoint() tells what each of several ranks would hold, and what it has whole", async () => {
  const source = randomGqa({ config: CONFIG });
  const report = await inspectCheckpoint(source, { tensorParallelSize: 4 });
  const { size, gpuBytes, cacheBytes, unshared } = report.ranks!;
  const whole = report.weights.find(({ form }) => form === "published")!.gpuBytes!;
  expect(size).toBe(4);
  expect(gpuBytes).toBeLessThan(whole);
  expect(gpuBytes).toBeGreaterThan(whole / 4);
  // Each has one of the two heads of keys.
  expect(cacheBytes).toBe(report.demand.cacheBytes / 2);
  expect(unshared).toContainEqual({
    name: "one head of self_attn.k_proj and v_proj",
    why: "its 2 heads of keys are fewer than 4 ranks",
  });
  const [, text] = formatReport(report).split("\nEach of 4 ranks holds ");
  expect(text).toMatch(/^\d+\.\d MiB of weights as published, \d+\.\d MiB of that cache\n/);
  expect(text).toContain("  whole on each: one head of self_attn.k_proj and v_proj, as its 2");
});

test.each([0, 1.5, 65])("inspectCheckpoint() refuses %d ranks", async (tensorParallelSize) => {
  const inspected = inspectCheckpoint(randomGqa({ config: CONFIG }), { tensorParallelSize });
  await expect(inspected).rejects.toThrow(
    `Cannot use tensorParallelSize ${tensorParallelSize}: it must be a whole number from 1 to 64`,
  );
});

test("wisp inspect --tp N has them in its report, which has none without", async () => {
  const report = async (...args: string[]) => {
    const { code, stdout } = startCommand(["inspect", EMBEDDED_MODEL, "--json", ...args]);
    expect(await code).toBe(0);
    return JSON.parse(stdout()) as CheckpointReport;
  };
  expect((await report("--tp", "2")).ranks).toMatchObject({ size: 2 });
  expect((await report()).ranks).toBeUndefined();
});
