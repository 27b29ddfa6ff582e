/**
 * The kernels of models in the forms of every GPU of the table of tunings, on a device that has what
 * WebGPU guarantees everywhere and nothing else: 16 KiB of workgroup memory, 8 storage buffers, no
 * subgroups. Dawn's null backend checks shaders and pipelines as every other, and runs nothing. The tests of
 * budgets start it.
 *
 * @module
 */

import { describe, expect, test, vi } from "vitest";
import { create, globals } from "webgpu";
import type { SelfTestReport } from "../../kernels/self_test.ts";
import { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import { compileKernels } from "../../src/engine/load/compile_kernels.ts";
import { ADAPTER_TUNINGS, DEFAULT_TUNING, type Tuning } from "../../src/gpu/tuning.ts";
import { deepseekV2 } from "../../test/support/synthetic/deepseek_v2.ts";
import { deepseekV3 } from "../../test/support/synthetic/deepseek_v3.ts";
import { gptOss } from "../../test/support/synthetic/gpt_oss.ts";
import { qwen3, qwen3Moe } from "../../test/support/synthetic/qwen3.ts";
import { syntheticSource } from "../../test/support/synthetic/source.ts";

// Nothing runs, so that what the self-test would find is taken as good.
vi.mock("../../kernels/self_test.ts", async (original) => ({
  ...(await original<object>()),
  selfTest: async (): Promise<SelfTestReport> => ({
    fp8Decode: "half",
    subgroupSize: undefined,
    askedSubgroupSize: undefined,
    packedDots: false,
    batchInvariant: true,
    failures: [],
  }),
}));

const known = globalThis as unknown as Record<string, unknown>;
for (const [name, value] of Object.entries(globals)) known[name] ??= value;
/** Held until the process ends: Dawn crashes when its GPU object is collected. */
const gpu = create(["backend=null"]);

async function openDevice(): Promise<{ readonly device: GPUDevice; readonly errors: string[] }> {
  const adapter = await gpu.requestAdapter();
  const device = await adapter!.requestDevice();
  const errors: string[] = [];
  device.addEventListener("uncapturederror", ({ error }) => errors.push(error.message));
  return { device, errors };
}

/**
 * Layers as published, with few tokens and, of DeepSeek-V3, a quarter of the heads, so that tensors are no larger
 * than the default limits have them.
 */
const FEW = { num_hidden_layers: 2, vocab_size: 4096 };
const QWEN = { ...FEW, max_window_layers: 2 };
const MODELS = {
  "DeepSeek-V3": () =>
    deepseekV3({ ...FEW, num_hidden_layers: 4, num_attention_heads: 32, num_key_value_heads: 32 }),
  "DeepSeek-V2-Lite": () => deepseekV2(FEW),
  "Qwen3-0.6B": () => qwen3(QWEN),
  "Qwen3-30B-A3B": () => qwen3Moe(QWEN),
  "gpt-oss-20b": () => gptOss(FEW),
};

/** Of which adapters have the same, the first. */
const FORMS = new Map<Tuning, string>([[DEFAULT_TUNING, "others"]]);
for (const { name, tuning } of ADAPTER_TUNINGS) FORMS.set(tuning, FORMS.get(tuning) ?? name);

const forms = [...FORMS].map(([tuning, name]) => ({ tuning, name }));
describe.runIf(process.env.WISP_GPU_CODE !== undefined).each(forms)("$name", ({ tuning }) => {
  test.each(Object.entries(MODELS))("%s compiles with default limits", async (_, model) => {
    const { device, errors } = await openDevice();
    const checkpoint = await Checkpoint.open(syntheticSource(model(), 7));
    const { pipelines } = await compileKernels(checkpoint, {
      device,
      deviceMemory: 2 ** 40,
      contextLength: 1024,
      maxTotalTokens: 1024,
      maxRowsPerStep: 1024,
      pageSize: 16,
      tuning,
    });
    expect(errors).toEqual([]);
    expect(pipelines.length).toBeGreaterThan(10);
    device.destroy();
  });
});
