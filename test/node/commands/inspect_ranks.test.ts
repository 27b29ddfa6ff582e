import { expect, test } from "vitest";
import type { CheckpointReport, InspectOptions } from "../../../src/engine/checkpoint_report.ts";
import { inspectCheckpoint } from "../../../src/engine/load/inspect_checkpoint.ts";
import { formatReport } from "../../../src/node/commands/inspect_report.ts";
import { EMBEDDED_MODEL } from "../../support/checkpoints/embedded_model.ts";
import { randomDeepseek } from "../../support/checkpoints/random_deepseek.ts";
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

/** Attention has latents: each rank of a group holds all of them. */
const LATENT = {
  hidden_size: 256,
  intermediate_size: 1024,
  kv_lora_rank: 128,
  moe_intermediate_size: 128,
  n_routed_experts: 8,
  num_attention_heads: 8,
  num_hidden_layers: 2,
  num_key_value_heads: 8,
  q_lora_rank: 128,
  qk_nope_head_dim: 64,
  qk_rope_head_dim: 64,
  v_head_dim: 128,
  vocab_size: 1024,
};
const inspected = async (options: InspectOptions) =>
  (await inspectCheckpoint(randomDeepseek({ config: LATENT, dtype: "FP8" }), options)).ranks!;

test("inspectCheckpoint() tells what ranks of attention groups hold, and how often the same", async () => {
  const asked = { tensorParallelSize: 4, contextLength: 64, concurrency: 5 };
  const alone = await inspected(asked);
  expect(alone).toMatchObject({ attentionGroups: 1, cacheCopies: 4 });
  const pairs = await inspected({ ...asked, attentionGroups: 2 });
  expect(pairs).toMatchObject({ size: 4, attentionGroups: 2, cacheCopies: 2 });
  // Three of the five sequences, at most.
  expect(pairs.cacheBytes).toBe((3 / 5) * alone.cacheBytes);
  const single = await inspected({ ...asked, attentionGroups: 4 });
  expect(single).toMatchObject({ cacheCopies: 1, cacheBytes: (2 / 5) * alone.cacheBytes });
  // Fewer ranks share attention's weights.
  expect(pairs.gpuBytes).toBeGreaterThan(alone.gpuBytes!);
  expect(single.gpuBytes).toBeGreaterThan(pairs.gpuBytes!);
  for (const whole of [{ headByGroup: true }, { wholeDenseLayers: true }]) {
    const { gpuBytes } = await inspected({ ...asked, attentionGroups: 2, ...whole });
    expect(gpuBytes).toBeGreaterThan(pairs.gpuBytes!);
  }
});

test.each([0, 3, 8])(
  "inspectCheckpoint() refuses %d groups of 4 ranks",
  async (attentionGroups) => {
    const asked = inspectCheckpoint(randomGqa({ config: CONFIG }), {
      tensorParallelSize: 4,
      attentionGroups,
    });
    await expect(asked).rejects.toThrow(
      `Cannot use attentionGroups ${attentionGroups}: it must be a divisor of tensorParallelSize 4`,
    );
  },
);

test("wisp inspect tells of groups, and refuses what would tell nothing", async () => {
  const groups = ["--tp", "4", "--dp", "2", "--enable-dp-attention"];
  const { code, stdout } = startCommand(["inspect", EMBEDDED_MODEL, ...groups]);
  expect(await code).toBe(0);
  expect(stdout()).toMatch(
    /\nEach of 4 ranks, in 2 attention groups, holds \d+\.\d MiB of weights/,
  );
  expect(stdout()).toContain("\n  2 ranks of a group hold the same entries of the cache\n");
  for (const [args, problem] of [
    [["--tp", "4", "--dp", "2"], "--dp-size 2: each replica holds what is told of one"],
    [["--tp", "4", "--dp", "3", "--enable-dp-attention"], "--tp-size 4 and --dp-size 3: 4 ranks"],
    [["--tp", "4", "--enable-dp-lm-head"], "--enable-dp-attention is not given"],
  ] as const) {
    const refused = startCommand(["inspect", EMBEDDED_MODEL, ...args]);
    expect(await refused.code).toBe(2);
    expect(refused.stderr()).toContain(problem);
  }
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
