/**
 * A checkpoint's draft layer in a folder of its own, as it is exported.
 *
 * @module
 */
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import { readJson } from "../../../src/checkpoint/json_file.ts";
import { memorySource } from "../../../src/checkpoint/memory_source.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { jsonFile, type RawTensor, safetensorsFile } from "./write_checkpoint.ts";

export interface ExportedLayer {
  /** The checkpoint without the layer. */
  readonly target: WeightSource;
  readonly exported: WeightSource;
}

export interface ExportOptions {
  /** Number of the layer in the checkpoint. */
  readonly layer: number;
  /** In the export. Default 0. */
  readonly number?: number;
  /** Default "DeepseekV3ForCausalLMNextN". */
  readonly architecture?: string;
  /** Changes what is exported. */
  readonly edit?: (tensors: readonly RawTensor[]) => readonly RawTensor[];
}

/** Takes a checkpoint apart. */
export async function exportLayer(
  source: WeightSource,
  { layer, number = 0, architecture, edit = (tensors) => tensors }: ExportOptions,
): Promise<ExportedLayer> {
  const { tensors } = await Checkpoint.open(source);
  const config = (await readJson(source, "config.json")) as object;
  const own = `model.layers.${layer}.`;
  const [kept, taken]: [RawTensor[], RawTensor[]] = [[], []];
  for (const [name, { file, offset, byteLength, dtype, shape }] of tensors) {
    const bytes = await source.read(file, offset, byteLength);
    const isTaken = name.startsWith(own);
    const place = isTaken ? `model.layers.${number}.${name.slice(own.length)}` : name;
    (isTaken ? taken : kept).push({ name: place, dtype, shape, bytes });
  }
  const files: Record<string, Uint8Array> = {};
  for (const { name, size } of await source.list()) {
    if (!name.includes(".safetensors")) files[name] = await source.read(name, 0, size);
  }
  const layers = { num_hidden_layers: number === 0 ? 1 : number };
  return {
    target: memorySource({
      ...files,
      "config.json": jsonFile({ ...config, num_nextn_predict_layers: 0 }),
      "model.safetensors": safetensorsFile(kept),
    }),
    exported: memorySource({
      "config.json": jsonFile({
        ...{ ...config, ...layers },
        architectures: [architecture ?? "DeepseekV3ForCausalLMNextN"],
      }),
      "model.safetensors": safetensorsFile(edit(taken)),
    }),
  };
}
