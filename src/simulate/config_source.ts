/**
 * A checkpoint of which only config.json is known: every tensor is as that says it, and none can be read.
 *
 * @module
 */
import { ConfigReader } from "../checkpoint/config.ts";
import { memorySource } from "../checkpoint/memory_source.ts";
import { detectQuantization } from "../checkpoint/quantization_config/detect_quantization.ts";
import type { TensorEntry, WeightSource } from "../checkpoint/source.ts";
import type { WeightSpec } from "../checkpoint/weight_spec.ts";
import type { Dtype } from "../dtype.ts";
import { configFormats, layOut, type WeightType } from "../engine/load/sizing.ts";
import { architectureOf } from "../models/architectures.ts";

export type ModelConfig = Readonly<Record<string, unknown>>;

const CONFIG_FILE = "config.json";
const PLAIN: Dtype = "BF16";

/** `quantization_config` of the forms in which weights of one shape are published. */
const SECTIONS: Readonly<Record<WeightType, object | undefined>> = {
  bf16: undefined,
  fp8: {
    activation_scheme: "dynamic",
    fmt: "e4m3",
    quant_method: "fp8",
    weight_block_size: [128, 128],
  },
  int8: { quant_method: "w8a8_int8" },
  awq: { bits: 4, group_size: 128, quant_method: "awq", version: "gemm", zero_point: true },
};

/** The same shape with weights of another type. */
export function withWeights(config: ModelConfig, type: WeightType): ModelConfig {
  const { quantization_config: _, ...plain } = config;
  const section = SECTIONS[type];
  return { ...plain, ...(section && { quantization_config: section }) };
}

/**
 * @throws {CheckpointError | UnsupportedError} naming what is wrong with the config, or not supported.
 */
export async function configSource(name: string, config: ModelConfig): Promise<WeightSource> {
  const bytes = new TextEncoder().encode(JSON.stringify(config));
  const files = memorySource({ [CONFIG_FILE]: bytes });
  const tensors = await tensorsOf(config, files);
  return { ...files, name, tensors: async () => tensors };
}

/** Layers of a draft module are not known by this: it is not loaded. */
async function tensorsOf(
  config: ModelConfig,
  files: WeightSource,
): Promise<ReadonlyMap<string, TensorEntry>> {
  const reader = new ConfigReader(config, { file: CONFIG_FILE });
  const quantization = await detectQuantization(files, reader);
  const definition = architectureOf(reader).define(reader, quantization);
  const { model } = layOut(definition, configFormats(quantization, { plain: PLAIN }));
  return new Map(model.specs.map((spec) => [spec.name, entryOf(spec)]));
}

function entryOf({ shape, dtypes }: WeightSpec): TensorEntry {
  const dtype = dtypes.find((one) => one === PLAIN) ?? dtypes[0]!;
  return { file: CONFIG_FILE, dtype, shape, offset: 0, byteLength: 0 };
}
