/**
 * Which quantization a checkpoint says it has.
 *
 * @module
 */

import { CheckpointError, UnsupportedError } from "../errors.ts";
import { ConfigReader } from "./config.ts";
import { readOptionalJson } from "./json_file.ts";
import type { WeightSource } from "./source.ts";

/**
 * E4M3 codes in blocks of `blockRows` x `blockColumns`, cut at the edges, each with one scale in
 * `NAME.weight_scale_inv`: weight = code * scale.
 */
export interface Fp8BlockQuantization {
  readonly method: "fp8_block";
  readonly blockRows: number;
  readonly blockColumns: number;
  /** A linear's input is quantized too, with scales found at run time. */
  readonly activationScheme: "dynamic";
}

export type Quantization = { readonly method: "none" } | Fp8BlockQuantization;

/** The kernels' block, in both dimensions. */
const BLOCK = 128;

const MODELOPT_FILE = "hf_quant_config.json";

/**
 * Reads `quantization_config`, else `compression_config`, else the file hf_quant_config.json.
 *
 * @param config Of config.json; the fields read count as read there.
 * @throws {UnsupportedError} naming a method, format or field value that is not supported.
 */
export async function detectQuantization(
  source: WeightSource,
  config: ConfigReader,
): Promise<Quantization> {
  const section =
    config.section("quantization_config", { fallback: undefined }) ??
    config.section("compression_config", { fallback: undefined });
  if (section !== undefined) return readSection(section);

  const modelopt = await readOptionalJson(source, MODELOPT_FILE);
  if (modelopt === undefined) return { method: "none" };
  const fields = new ConfigReader(modelopt, { file: MODELOPT_FILE }).section("quantization");
  for (const field of ["quant_algo", "kv_cache_quant_algo"]) {
    const algorithm = fields.string(field, { fallback: undefined });
    if (algorithm !== undefined) {
      throw new UnsupportedError(`${field} "${algorithm}" of ${MODELOPT_FILE}`);
    }
  }
  return { method: "none" };
}

function readSection(section: ConfigReader): Quantization {
  const method = section.string("quant_method");
  if (method !== "fp8") {
    throw new UnsupportedError(`quantization method "${method}" of ${section.file}`);
  }
  section.only("fmt", ["e4m3"]);
  section.only("dequantize", [false]);
  const block = section.integers("weight_block_size", { fallback: undefined });
  if (block === undefined) {
    throw new UnsupportedError(
      `quantization method "fp8" with one scale for each tensor of ${section.file}`,
      `only a weight_block_size of [${BLOCK}, ${BLOCK}] is supported`,
    );
  }
  const [blockRows, blockColumns] = block;
  if (block.length !== 2 || blockRows === undefined || blockColumns === undefined) {
    throw new CheckpointError(
      section.file,
      `it must be two whole numbers, not [${block.join(", ")}]`,
      "quantization_config.weight_block_size",
    );
  }
  if (blockRows !== BLOCK || blockColumns !== BLOCK) {
    throw new UnsupportedError(
      `weight_block_size [${block.join(", ")}] of ${section.file}`,
      `only [${BLOCK}, ${BLOCK}] is supported`,
    );
  }
  const activationScheme = section.only("activation_scheme", ["dynamic"]);
  // The modules left as they were: the element types of their tensors say the same.
  section.strings("modules_to_not_convert", { fallback: [] });
  section.strings("ignored_layers", { fallback: [] });
  section.finish();
  return { method: "fp8_block", blockRows, blockColumns, activationScheme };
}
