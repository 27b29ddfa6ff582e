/**
 * What compiling a model's kernels takes with no shader in the driver's cache: the embedded model,
 * and the layers of the 671B model. No weight is read. Part of the GPU bench (see gpu.bench.ts), in
 * a process of its own because drivers decide about their caches as they start.
 *
 * @module
 */
import "./support/cold_shaders.ts";
import { performance } from "node:perf_hooks";
import { afterAll, describe, expect, test } from "vitest";
import { Checkpoint } from "../src/checkpoint/checkpoint.ts";
import type { WeightSource } from "../src/checkpoint/source.ts";
import { compileKernels } from "../src/engine/load/compile_kernels.ts";
import { EMBEDDED_MODEL } from "../test/support/checkpoints/embedded_model.ts";
import { folderSource } from "../test/support/checkpoints/folder_source.ts";
import { device } from "../test/support/devices/gpu.ts";
import { deepseekV3 } from "../test/support/synthetic/deepseek_v3.ts";
import { syntheticSource } from "../test/support/synthetic/source.ts";
import { Report, scaled, TIMEOUT } from "./gpu/gpu_bench.ts";

/** Three dense layers and one of experts: the others have the same kernels. */
const LAYERS = 4;
/** More than any of the models takes. */
const DEVICE_MEMORY = 2 ** 40;
const SLOWEST = 5;

interface NamedModel {
  readonly name: string;
  readonly source: WeightSource;
}

const EMBEDDED: NamedModel = { name: "embedded model", source: folderSource(EMBEDDED_MODEL) };
const MODELS: readonly NamedModel[] = [
  EMBEDDED,
  {
    name: `DeepSeek of 671B, ${LAYERS} layers of it`,
    source: syntheticSource(deepseekV3({ num_hidden_layers: LAYERS, vocab_size: 129_280 }), 7),
  },
];

describe("compiling", () => {
  const header = ["model", "pipelines", "ms", "ms of a pipeline, the slowest", "which"];
  const report = new Report("Compiling with an empty shader cache", header);
  afterAll(() => report.finish());

  for (const { name, source } of scaled(MODELS, [EMBEDDED])) {
    test(
      name,
      async () => {
        const checkpoint = await Checkpoint.open(source);
        const started = performance.now();
        const { pipelines } = await compileKernels(checkpoint, {
          ...{ device, deviceMemory: DEVICE_MEMORY, contextLength: 2048, maxTotalTokens: 4096 },
        });
        const all = performance.now() - started;
        expect(pipelines.length).toBeGreaterThan(10);
        const slowest = [...pipelines]
          .sort((a, b) => b.milliseconds - a.milliseconds)
          .slice(0, SLOWEST);
        for (const [i, { label, milliseconds }] of slowest.entries()) {
          const model = i === 0 ? [name, `${pipelines.length}`, all.toFixed(0)] : ["", "", ""];
          report.line([...model, milliseconds.toFixed(0), label]);
        }
      },
      TIMEOUT,
    );
  }
});
