import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterEach, beforeEach, describe, expect, test, vi } from "vitest";
import { memorySource } from "../../../src/checkpoint/memory_source.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import type { CheckpointReport } from "../../../src/engine/checkpoint_report.ts";
import { inspectCheckpoint } from "../../../src/engine/load/inspect_checkpoint.ts";
import { runCommand } from "../../../src/node/command.ts";
import { folderSource, SHARED_MODELS } from "../../support/checkpoints/folder_source.ts";
import { LLAMA_32_1B, QWEN3_30B_A3B } from "../../support/checkpoints/gqa_configs.ts";
import {
  checkpointFiles,
  jsonFile,
  type TensorInput,
} from "../../support/checkpoints/write_checkpoint.ts";

const SHARDS = ["model-00001-of-00002.safetensors", "model-00002-of-00002.safetensors"] as const;

const CONFIG = {
  ...LLAMA_32_1B,
  head_dim: 16,
  hidden_size: 64,
  intermediate_size: 128,
  max_position_embeddings: 512,
  num_attention_heads: 4,
  num_hidden_layers: 1,
  num_key_value_heads: 2,
  rope_scaling: null,
  vocab_size: 100,
};

function zeros(name: string, ...shape: readonly number[]): TensorInput {
  const elements = shape.reduce((product, size) => product * size, 1);
  return { name, shape, dtype: "BF16", values: new Float32Array(elements) };
}

const LAYER = "model.layers.0";
const TENSORS = [
  zeros("model.embed_tokens.weight", 100, 64),
  zeros(`${LAYER}.input_layernorm.weight`, 64),
  zeros(`${LAYER}.self_attn.q_proj.weight`, 64, 64),
  zeros(`${LAYER}.self_attn.k_proj.weight`, 32, 64),
  zeros(`${LAYER}.self_attn.v_proj.weight`, 32, 64),
  zeros(`${LAYER}.self_attn.o_proj.weight`, 64, 64),
  zeros(`${LAYER}.post_attention_layernorm.weight`, 64),
  zeros(`${LAYER}.mlp.gate_proj.weight`, 128, 64),
  zeros(`${LAYER}.mlp.up_proj.weight`, 128, 64),
  zeros(`${LAYER}.mlp.down_proj.weight`, 64, 128),
  zeros("model.norm.weight", 64),
];
const NUMBERS = TENSORS.reduce((sum, { values }) => sum + values.length, 0);

/** Refuses to give anything of a file of weights beyond its header. */
function headersOnly(source: WeightSource): WeightSource {
  const ends = new Map<string, number>();
  return {
    ...source,
    name: source.name,
    list: () => source.list(),
    async read(file, offset, length) {
      if (file.endsWith(".safetensors") && offset + length > (ends.get(file) ?? 8)) {
        throw new Error(`${file} was read up to byte ${offset + length}`);
      }
      const bytes = await source.read(file, offset, length);
      if (offset === 0 && length === 8) {
        ends.set(file, 8 + Number(new DataView(bytes.buffer).getBigUint64(0, true)));
      }
      return bytes;
    },
  };
}

const byForm = ({ weights }: CheckpointReport, form: string) =>
  weights.find((one) => one.form === form)!;

describe("inspectCheckpoint", () => {
  test("reads headers only, and tells what they say", async () => {
    const source = memorySource(checkpointFiles({ tensors: TENSORS, config: CONFIG, shards: 2 }));
    const report = await inspectCheckpoint(headersOnly(source));
    expect(report).toMatchObject({
      architecture: "LlamaForCausalLM",
      layers: 1,
      hiddenSize: 64,
      attention: { kind: "gqa", heads: 4, kvHeads: 2, headDim: 16 },
      contextLength: 512,
      vocabularySize: 100,
      experts: undefined,
      tiedEmbeddings: true,
      draftLayers: 0,
      quantization: { method: "none" },
      parameters: { total: NUMBERS, active: NUMBERS },
      stored: { total: 2 * NUMBERS, byDtype: { BF16: 2 * NUMBERS }, unused: 0 },
      missing: [],
      problem: undefined,
      cacheBytesPerToken: { bf16: 128, f32: 256, fp8: 80 },
      demand: { contextLength: 512, concurrency: 1, cacheBytes: 512 * 128 },
    });
  });

  test("plain weights may be quantized at upload, which takes fewer bytes each time", async () => {
    const source = memorySource(checkpointFiles({ tensors: TENSORS, config: CONFIG }));
    const report = await inspectCheckpoint(source);
    const forms = report.weights.map(({ form, kind }) => `${kind} ${form}`);
    expect(forms).toEqual([
      "published published",
      ...["upload fp8", "upload int8", "upload int4"],
      ...["shape fp8", "shape bf16", "shape awq", "shape int8"],
    ]);
    const sizes = report.weights.slice(0, 4).map(({ gpuBytes }) => gpuBytes!);
    const [published, fp8, int8, int4] = sizes;
    expect(published).toBe(report.weights.at(5)!.gpuBytes);
    expect(fp8).toBeLessThan(published!);
    expect(int8).toBe(fp8);
    expect(int4).toBeLessThan(int8!);
  });

  test("answers for the memory, context and concurrency that are asked about", async () => {
    const source = memorySource(checkpointFiles({ tensors: TENSORS, config: CONFIG }));
    const report = await inspectCheckpoint(source, {
      deviceMemory: [300_000, 600_000, 10_000],
      memFractionStatic: 0.5,
      contextLength: 100,
      concurrency: 3,
    });
    const { gpuBytes, devices } = byForm(report, "bf16");
    expect(report.demand.cacheBytes).toBe(300 * 128);
    expect(devices.map(({ deviceMemory }) => deviceMemory)).toEqual([300_000, 600_000, 10_000]);
    const room = Math.floor((300_000 - gpuBytes!) / 128);
    expect(devices[1]!.fit).toEqual({ devices: 1, nodes: 1, cacheTokens: room });
    expect(devices[0]!.fit?.devices).toBe(2);
    expect(devices[2]!.fit).toBeUndefined();
  });

  test.each([
    ["contextLength", { contextLength: 513 }],
    ["contextLength", { contextLength: 1 }],
    ["concurrency", { concurrency: 0 }],
    ["memFractionStatic", { memFractionStatic: 1.1 }],
    ["deviceMemory", { deviceMemory: [0] }],
  ])("refuses %s out of range", async (field, options) => {
    const source = memorySource(checkpointFiles({ tensors: TENSORS, config: CONFIG }));
    await expect(inspectCheckpoint(source, options)).rejects.toMatchObject({ field });
  });

  test("names the shards that are missing and tells what config.json can", async () => {
    const files = checkpointFiles({ tensors: TENSORS, config: CONFIG, shards: 2 });
    const whole = await inspectCheckpoint(memorySource(files));
    const { [SHARDS[1]]: _, ...part } = files;
    const report = await inspectCheckpoint(headersOnly(memorySource(part)));
    expect(report).toMatchObject({ missing: [SHARDS[1]], stored: undefined });
    expect(report.problem).toContain(`missing ${SHARDS[1]}`);
    expect(report.parameters).toEqual(whole.parameters);
    expect(report.weights).toEqual(whole.weights);
  });

  test("of config.json alone, the size follows its quantization", async () => {
    const modules = [`${LAYER}.mlp`, "lm_head"];
    const sizeOf = async (section: object | undefined) => {
      const config = { ...CONFIG, quantization_config: section };
      const source = memorySource({ "config.json": jsonFile(config) });
      const report = await inspectCheckpoint(source);
      expect(report.missing).toEqual(["model.safetensors"]);
      return byForm(report, "published").gpuBytes!;
    };
    const awq = { quant_method: "awq", bits: 4, group_size: 32, zero_point: true, version: "gemm" };
    const plain = await sizeOf(undefined);
    const packed = await sizeOf(awq);
    const partly = await sizeOf({ ...awq, modules_to_not_convert: modules });
    expect(packed).toBeLessThan(partly);
    expect(partly).toBeLessThan(plain);
    // A module is named in full: "gate" is not "gate_proj".
    expect(await sizeOf({ ...awq, modules_to_not_convert: [`${LAYER}.mlp.gate`] })).toBe(packed);
  });

  test("tells experts, those of a token and the shared ones", async () => {
    const config = { ...QWEN3_30B_A3B, num_hidden_layers: 2, num_experts: 16 };
    const report = await inspectCheckpoint(memorySource({ "config.json": jsonFile(config) }));
    expect(report.experts).toEqual({ routed: 16, perToken: 8, shared: 0 });
    const { total, active } = report.parameters;
    expect(total - active).toBe(2 * 8 * 3 * config.hidden_size * config.moe_intermediate_size);
  });

  test("tells why tensors cannot be loaded", async () => {
    const source = memorySource(checkpointFiles({ tensors: TENSORS.slice(1), config: CONFIG }));
    const report = await inspectCheckpoint(source);
    expect(report.problem).toMatch(/tensors are missing: model\.embed_tokens\.weight$/);
    expect(report.stored?.total).toBeGreaterThan(0);
  });

  test("counts tensors that nothing reads", async () => {
    const tensors = [...TENSORS, zeros("model.layers.1.norm.weight", 64)];
    const source = memorySource(checkpointFiles({ tensors, config: CONFIG }));
    const report = await inspectCheckpoint(source);
    expect(report.problem).toBeUndefined();
    expect(report.stored).toMatchObject({ total: 2 * (NUMBERS + 64), unused: 128 });
  });

  test("refuses a model that is not known, by its name", async () => {
    const config = { ...CONFIG, architectures: ["OtherForCausalLM"] };
    const source = memorySource(checkpointFiles({ tensors: TENSORS, config }));
    await expect(inspectCheckpoint(source)).rejects.toThrow("architecture OtherForCausalLM");
  });
});

describe.skipIf(SHARED_MODELS === undefined)("shared checkpoints (../shared/data/models)", () => {
  const open = (model: string) => headersOnly(folderSource(join(SHARED_MODELS!, model)));

  test.each([
    ["mini-llama", "mini-llama-awq"],
    ["mini-llama", "mini-llama-int8"],
    ["tiny-deepseek-v3-bf16", "tiny-deepseek-v3-fp8"],
    ["tiny-deepseek-v3-bf16", "tiny-deepseek-v3-awq"],
    ["tiny-deepseek-v3-bf16", "tiny-deepseek-v3-int8"],
  ])("%s and %s have as many parameters", async (plain, quantized) => {
    const [a, b] = await Promise.all([plain, quantized].map((m) => inspectCheckpoint(open(m))));
    expect(b!.problem).toBeUndefined();
    expect(b!.parameters).toEqual(a!.parameters);
    expect(b!.stored!.total).toBeLessThan(a!.stored!.total);
    expect(a!.weights.some(({ kind }) => kind === "upload")).toBe(true);
    expect(b!.weights.some(({ kind }) => kind === "upload")).toBe(false);
  });

  test.each([
    "mini-llama",
    "mini-qwen3",
    "mini-qwen3-moe",
    "mini-deepseek-v2-lite",
    "tiny-deepseek-v3-bf16",
  ])("%s holds its parameters, two bytes each, and what nothing reads", async (model) => {
    const { problem, parameters, stored } = await inspectCheckpoint(open(model));
    expect(problem).toBeUndefined();
    const { total, unused, byDtype } = stored!;
    // Correction biases of routers are in F32.
    const wide = total - unused - 2 * parameters.total;
    expect(wide).toBeGreaterThanOrEqual(0);
    expect(wide).toBeLessThanOrEqual((byDtype.F32 ?? 0) / 2);
  });

  test.each(["tiny-deepseek-v3-fp8", "tiny-deepseek-v3-awq", "mini-llama-awq"])(
    "%s is as large as its config alone says",
    async (model) => {
      const whole = await inspectCheckpoint(open(model));
      const source = open(model);
      const list = async () => (await source.list()).filter(({ name }) => name === "config.json");
      const config = await inspectCheckpoint({ ...source, list });
      expect(config.missing).toEqual(["model.safetensors"]);
      expect(byForm(config, "published").gpuBytes).toBe(byForm(whole, "published").gpuBytes);
    },
  );
});

describe("wisp inspect", () => {
  let folder: string;

  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), "wisp-inspect-"));
  });

  afterEach(() => {
    vi.unstubAllEnvs();
    rmSync(folder, { recursive: true });
  });

  function write(path: string, { without }: { readonly without?: string } = {}): void {
    mkdirSync(path, { recursive: true });
    const tokenizer = { "tokenizer.json": jsonFile({}) };
    const input = { tensors: TENSORS, config: CONFIG, shards: 2, files: tokenizer };
    for (const [name, bytes] of Object.entries(checkpointFiles(input))) {
      if (name !== without) writeFileSync(join(path, name), bytes);
    }
  }

  /** A run with an engine that must not be started. */
  async function run(...args: readonly string[]) {
    const text = { stdout: "", stderr: "" };
    const output = (name: keyof typeof text) => ({
      write: (more: string) => {
        text[name] += more;
      },
    });
    const startEngine = vi.fn();
    const code = await runCommand(["inspect", ...args], {
      startEngine,
      stdout: output("stdout"),
      stderr: output("stderr"),
    });
    expect(startEngine).not.toHaveBeenCalled();
    return { code, ...text };
  }

  test("prints aligned lines", async () => {
    write(folder);
    const { code, stdout, stderr } = await run(folder, "--device-memory", "8G");
    expect({ code, stderr }).toEqual({ code: 0, stderr: "" });
    expect(stdout.replace(folder, "DIR").split("\n")).toEqual([
      "Model           DIR",
      "Architecture    LlamaForCausalLM",
      "Layers          1",
      "Hidden size     64",
      "Attention       GQA, 4 heads, 2 key heads of 16",
      "Context         512 tokens",
      "Vocabulary      100, tied",
      "Quantization    none",
      "Parameters      0.04 million",
      "Files           0.1 MiB: BF16 0.1 MiB",
      "KV cache        128 bytes per token (80 in FP8, 256 in f32)",
      "",
      "Devices for the weights and one sequence of 512 tokens (0.1 MiB of cache), 0.88 of each one's memory:",
      "Weights                       On the GPU  8 GiB",
      "as published                     0.2 MiB      1",
      "--quantization fp8               0.1 MiB      1",
      "--quantization int8              0.1 MiB      1",
      "--quantization int4              0.1 MiB      1",
      "if published in FP8              0.1 MiB      1",
      "if published in BF16             0.2 MiB      1",
      "if published in AWQ (4 bits)     0.1 MiB      1",
      "if published in int8             0.1 MiB      1",
      "",
      "Devices: the fewest that hold the weights and that cache, cut evenly: a power of two that divides",
      'the heads, whole machines of 8 above 8. "-" does not fit.',
      "",
    ]);
  });

  test("--json prints the report, for what the options ask about", async () => {
    write(folder);
    const { code, stdout } = await run(
      ...[folder, "--json", "--device-memory", "1M", "--mem-fraction-static", "0.5"],
      ...["--context-length", "100", "--concurrency", "2"],
    );
    const report = JSON.parse(stdout) as CheckpointReport;
    expect(code).toBe(0);
    expect(report.demand).toEqual({
      ...{ contextLength: 100, concurrency: 2 },
      ...{ cacheBytes: 200 * 128, memFractionStatic: 0.5 },
    });
    const { devices } = byForm(report, "published");
    expect(devices).toMatchObject([{ deviceMemory: 2 ** 20, fit: { devices: 1 } }]);
  });

  test("tells about a folder that is not complete, and ends with 1", async () => {
    write(folder, { without: SHARDS[0] });
    const { code, stdout, stderr } = await run(folder);
    expect(code).toBe(1);
    expect(stdout).toContain(`\nMissing         ${SHARDS[0]}\n`);
    expect(stdout).toContain("\nParameters      0.04 million\n");
    expect(stderr).toMatch(/^Cannot load .*: weights not fully downloaded: missing .*\n$/);
  });

  describe("of a model from a hub", () => {
    const COMMIT = "c0ffee".padEnd(40, "0");

    function cache(options: Parameters<typeof write>[1]): void {
      vi.stubEnv("HF_HUB_CACHE", folder);
      const model = join(folder, "models--org--mini");
      write(join(model, "snapshots", COMMIT), options);
      mkdirSync(join(model, "refs"));
      writeFileSync(join(model, "refs", "main"), COMMIT);
    }

    test("finds it in the cache by its id", async () => {
      cache({});
      const { code, stdout } = await run("org/mini");
      expect(code).toBe(0);
      expect(stdout).toContain("Model           org/mini\n");
    });

    test("tells what is missing, and the command that fetches it", async () => {
      cache({ without: SHARDS[1] });
      const { code, stdout, stderr } = await run("org/mini");
      expect(code).toBe(1);
      expect(stdout).toContain(`\nMissing         ${SHARDS[1]}\n`);
      expect(stderr).toContain(`lacks ${SHARDS[1]}`);
      expect(stderr).toContain("wisp download org/mini");
    });

    test("refuses what is not there at all", async () => {
      vi.stubEnv("HF_HUB_CACHE", folder);
      const { code, stdout, stderr } = await run("org/mini");
      expect({ code, stdout }).toEqual({ code: 1, stdout: "" });
      expect(stderr).toContain("wisp download org/mini");
    });
  });

  test("prints its help, and refuses a command line without a model or with two", async () => {
    expect((await run("--help")).stdout).toContain("--concurrency N");
    expect(await run()).toMatchObject({ code: 2 });
    expect(await run("a", "b")).toMatchObject({ code: 2 });
  });
});
