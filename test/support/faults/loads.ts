/**
 * Loads that each have waits of their own.
 *
 * @module
 */
import { MATRIX_CONFIGS } from "../../../kernels/linear/checks/check_matrix.ts";
import { matrixKernels } from "../../../kernels/matrix_self_test.ts";
import { memorySource } from "../../../src/checkpoint/memory_source.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { PLAIN_TUNING } from "../../../src/gpu/tuning.ts";
import { byteLevelJson } from "../../text/small_tokenizers.ts";
import { EMBEDDED_MODEL } from "../checkpoints/embedded_model.ts";
import { exportLayer } from "../checkpoints/exported_layer.ts";
import { folderSource } from "../checkpoints/folder_source.ts";
import { randomGqa } from "../checkpoints/random_gqa.ts";
import { device } from "../devices/gpu.ts";
import { MemoryBlobs } from "../engines/memory_blobs.ts";
import { openEmulatedMatrices } from "../reference/emulated_matrices.ts";

/** What is loaded, and how. */
export interface Load {
  /** Default: the embedded model. */
  readonly source?: WeightSource;
  readonly options: Partial<LoadOptions>;
}

/** The number of the embedded model's draft layer. */
const DRAFT_LAYER = 5;

let emulated: ReturnType<typeof openEmulatedMatrices> | undefined;

/** One device for all loads of its kind. */
async function withMatrices(): Promise<GPUDevice> {
  emulated ??= openEmulatedMatrices([MATRIX_CONFIGS["f32 8x8x8"]]);
  return (await emulated).device;
}

/** A model whose tokenizer is in the two files that older checkpoints have. */
function withOldTokenizer(): WeightSource {
  const model = randomGqa({ family: "qwen2" });
  const encoder = new TextEncoder();
  const bytes = (value: unknown) =>
    encoder.encode(typeof value === "string" ? value : JSON.stringify(value));
  const files = {
    "vocab.json": bytes(byteLevelJson().model.vocab),
    "merges.txt": bytes("#version: 0.2\n"),
    "added_tokens.json": bytes({ "<|endoftext|>": 256 }),
    "tokenizer_config.json": bytes({ tokenizer_class: "GPT2Tokenizer" }),
  };
  const tokenizer = memorySource(files);
  return {
    name: model.name,
    list: async () => [...(await model.list()), ...(await tokenizer.list())],
    read: (file, ...range) => (Object.hasOwn(files, file) ? tokenizer : model).read(file, ...range),
  };
}

export const LOADS: Readonly<Record<string, () => Promise<Load>>> = {
  "a layer that drafts, stored prefixes, and a trial": async () => ({
    options: {
      prefixStore: { storage: new MemoryBlobs() },
      retractionMemory: 2 ** 20,
      speculation: { algorithm: "EAGLE" },
      triesInvariance: true,
    },
  }),
  "an exported layer that drafts": async () => ({
    options: {
      draftModel: (await exportLayer(folderSource(EMBEDDED_MODEL), { layer: DRAFT_LAYER }))
        .exported,
      speculation: { algorithm: "EAGLE", adaptive: "off" },
    },
  }),
  "a model that drafts": async () => ({
    options: {
      draftModel: folderSource(EMBEDDED_MODEL),
      speculation: { algorithm: "STANDALONE", adaptive: "off" },
    },
  }),
  "two ranks": async () => ({
    options: { tensorParallelSize: 2, prefixStore: { storage: new MemoryBlobs() } },
  }),
  "two ranks that multiply matrices, on a device that is opened for them": async () => ({
    options: {
      device: withMatrices,
      ...{ tensorParallelSize: 2, numericClass: "mma128", matrixKernels },
    },
  }),
  "an old tokenizer, a device that is opened for it, and a trial of every form": async () => ({
    source: withOldTokenizer(),
    options: {
      device: async () => device,
      tuning: { ...PLAIN_TUNING, findsBest: true, foldsNorms: true },
      ...{ contextLength: 300, maxTotalTokens: 1024 },
      triesInvariance: true,
    },
  }),
};
