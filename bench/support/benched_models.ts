/**
 * The models that bench/models.bench.ts compares with llama.cpp.
 *
 * Of the embedded model ours is the checkpoint itself, and llama.cpp's a random one of its shape,
 * without the layer that only predicts further tokens. Every row of its matrices is whole blocks of
 * 32 elements, so q8_0 holds it as it is.
 *
 * @module
 */
import { readFileSync } from "node:fs";
import { readFile, writeFile } from "node:fs/promises";
import { join } from "node:path";
import type { WeightSource } from "../../src/checkpoint/source.ts";
import { EMBEDDED_MODEL } from "../../test/support/checkpoints/embedded_model.ts";
import { folderSource } from "../../test/support/checkpoints/folder_source.ts";
import { qwen3Sized } from "../../test/support/checkpoints/qwen3_process.ts";
import { DEEPSEEK_6_LAYERS, deepseekV3 } from "../../test/support/synthetic/deepseek_v3.ts";
import {
  type SyntheticModel,
  syntheticSource,
  writeFolder,
} from "../../test/support/synthetic/source.ts";
import { CheckpointRows } from "../peers/checkpoint_rows.ts";
import { ggufModel } from "../peers/gguf/gguf_model.ts";
import { type GgufType, writeGguf } from "../peers/gguf/gguf_writer.ts";

const SEED = 7;

export interface BenchedModel {
  readonly name: string;
  /** What ours loads. */
  readonly checkpoint: WeightSource;
  /** The same shape in BF16 with random weights, and what llama.cpp has it in. */
  readonly plain: SyntheticModel;
  readonly type: GgufType;
  /** llama.cpp's fastest build cannot run it. */
  readonly abortsWithAmx: boolean;
  /** "none" is the checkpoint as it is. */
  readonly quantizations: readonly string[];
}

/** @param quantizations Of Qwen3. */
export function benchedModels(quantizations: readonly string[]): readonly BenchedModel[] {
  const latent = { type: "q8_0", abortsWithAmx: true, quantizations: ["none"] } as const;
  return [
    {
      name: "deepseek",
      checkpoint: syntheticSource(deepseekV3(DEEPSEEK_6_LAYERS), SEED),
      plain: deepseekV3(DEEPSEEK_6_LAYERS, { fp8: false }),
      ...latent,
    },
    {
      name: "embedded",
      checkpoint: folderSource(EMBEDDED_MODEL),
      plain: deepseekV3(embeddedFields(), { fp8: false }),
      ...latent,
    },
    {
      name: "qwen3",
      checkpoint: syntheticSource(qwen3Sized(), SEED),
      plain: qwen3Sized(),
      type: "q4_0",
      abortsWithAmx: false,
      quantizations,
    },
  ];
}

/**
 * Writes the checkpoint into `folder`. Where the longest context of its config is shorter than
 * `contextLength` the config says that instead: weights are the same for any, and answers beyond
 * the context that a model was trained for cost what others cost.
 */
export async function writeCheckpoint(
  { checkpoint }: BenchedModel,
  folder: string,
  contextLength: number,
): Promise<void> {
  await writeFolder(checkpoint, folder);
  const file = join(folder, "config.json");
  const config = JSON.parse(await readFile(file, "utf8"));
  const longest = Math.max(config.max_position_embeddings, contextLength);
  await writeFile(file, JSON.stringify({ ...config, max_position_embeddings: longest }));
}

/** Writes what llama.cpp loads. */
export async function writePeerModel({ plain, type }: BenchedModel, path: string): Promise<void> {
  const weights = await CheckpointRows.open(syntheticSource(plain, SEED));
  await writeGguf(path, ggufModel(plain, weights, type));
}

/** Its config, less what says that the weights are FP8 and that there are layers beside the model. */
function embeddedFields(): Parameters<typeof deepseekV3>[0] {
  const text = readFileSync(join(EMBEDDED_MODEL, "config.json"), "utf8");
  const { quantization_config: _, ...config } = JSON.parse(text);
  return { ...config, num_nextn_predict_layers: 0 };
}
