/**
 * Which quantization a checkpoint says it has.
 *
 * @module
 */

import { UnsupportedError } from "../../errors.ts";
import { ConfigReader } from "../config.ts";
import { readOptionalJson } from "../json_file.ts";
import type { Quantization } from "../quantization.ts";
import type { WeightSource } from "../source.ts";
import { readCompressedTensors } from "./compressed_tensors.ts";
import { readModelopt, readModeloptFile } from "./modelopt.ts";
import {
  readAwq,
  readFp8,
  readGptq,
  readInt8Block,
  readInt8Channel,
  readMxfp4,
} from "./quantization_sections.ts";

const MODELOPT_FILE = "hf_quant_config.json";

/** By `quant_method`. */
const READERS: ReadonlyMap<string, (section: ConfigReader, name: string) => Quantization> = new Map(
  Object.entries({
    fp8: readFp8,
    awq: readAwq,
    awq_marlin: readAwq,
    gptq: readGptq,
    gptq_marlin: readGptq,
    w8a8_int8: readInt8Channel,
    blockwise_int8: readInt8Block,
    "compressed-tensors": readCompressedTensors,
    modelopt: readModelopt,
    mxfp4: readMxfp4,
  }),
);

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
  return readModeloptFile(new ConfigReader(modelopt, { file: MODELOPT_FILE }));
}

function readSection(section: ConfigReader): Quantization {
  const name = section.string("quant_method");
  const isInt8Block = name.includes("int8") && section.has("weight_block_size");
  const read = READERS.get(name) ?? (isInt8Block ? readInt8Block : undefined);
  if (read === undefined) {
    throw new UnsupportedError(
      `quantization method "${name}" of ${section.file}`,
      `known are ${[...READERS.keys()].join(", ")}`,
    );
  }
  const quantization = read(section, name);
  section.finish();
  return quantization;
}
