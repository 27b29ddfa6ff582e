import { mkdtemp, rm, stat } from "node:fs/promises";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, expect, test } from "vitest";
import {
  MOST_HEAP_BYTES,
  MOST_RESIDENT_BYTES,
  QWEN3_LAYERS,
  qwen3Sized,
  residentBesideBuffers,
  runQwen3,
} from "./support/checkpoints/qwen3_process.ts";
import { builtPackage } from "./support/package/built_package.ts";
import { syntheticSource, writeFolder } from "./support/synthetic/source.ts";

const full = process.env.WISP_TEST_FULL === "1";
/** Of the small run: a file of 370 MB of which one tensor has 311 MB. */
const FEW_LAYERS = 2;
const FEW_LAYERS_HEAP_BYTES = 128 * 2 ** 20;

let folder: string;
let dist: string;

beforeAll(async () => {
  folder = await mkdtemp(join(tmpdir(), "wisp-load-"));
  dist = await builtPackage();
});

afterAll(() => rm(folder, { recursive: true, force: true }));

/** Loads a checkpoint of so many layers in a process of its own, and generates two tokens. */
async function load(layers: number, quantization: string | undefined) {
  const model = join(folder, `${layers}-layers`);
  await writeFolder(syntheticSource(qwen3Sized(layers), 7), model);
  const { size } = await stat(join(model, "model.safetensors"));
  const options = { maxTotalTokens: 1024, maxRunningRequests: 4, quantization };
  const report = await runQwen3({ dist, model, options, prompt: 4, generated: 2, rounds: 1 });
  expect(report.quantized).toBe(quantization === undefined ? 0 : 1 + 7 * layers);
  expect(report.runs[0]!.tokens).toHaveLength(2);
  return { size, report };
}

test.skipIf(full)("a large model loads in little memory of the host", async () => {
  const { size, report } = await load(FEW_LAYERS, "int4");
  expect(size).toBeGreaterThan(2 * FEW_LAYERS_HEAP_BYTES);
  expect(report.loaded.peakHeap).toBeLessThan(FEW_LAYERS_HEAP_BYTES);
  expect(residentBesideBuffers(report)).toBeLessThan(MOST_RESIDENT_BYTES);
});

test.runIf(full).each(["int4", undefined])(
  "a model of Qwen3-0.6B's size loads in little memory of the host, quantization %s",
  async (quantization) => {
    const { report } = await load(QWEN3_LAYERS, quantization);
    expect(report.loaded.peakHeap).toBeLessThan(MOST_HEAP_BYTES);
    expect(residentBesideBuffers(report)).toBeLessThan(MOST_RESIDENT_BYTES);
  },
);
