/**
 * What `--kv-cache-dtype` means for a checkpoint.
 *
 * @module
 */
import type { CacheDtype } from "../../cache/kv_cache.ts";
import { Checkpoint } from "../../checkpoint/checkpoint.ts";
import { readConfig } from "../../checkpoint/config.ts";
import { detectQuantization } from "../../checkpoint/quantization_config/detect_quantization.ts";
import { hasFp8Weights } from "../../checkpoint/quantization_option.ts";
import type { WeightSource } from "../../checkpoint/source.ts";
import { OptionError } from "./option_parser.ts";

/** Values of the option but `auto`, which leaves the choice to the engine. */
const DTYPES = {
  bf16: "bf16",
  bfloat16: "bf16",
  f32: "f32",
  float32: "f32",
  fp8_e4m3: "fp8_e4m3",
  fp8_e5m2: "fp8_e5m2",
} as const satisfies Readonly<Record<string, CacheDtype>>;

export const KV_CACHE_DTYPES = [
  "auto",
  ...(Object.keys(DTYPES) as (keyof typeof DTYPES)[]),
] as const;
export type KvCacheDtype = (typeof KV_CACHE_DTYPES)[number];

/**
 * The engine's option `cacheDtype`, which itself goes with any checkpoint.
 *
 * @throws {OptionError} when the weights are FP8 already and a type is asked for that rounds; f32 keeps
 * what was computed, which comparisons with other implementations need.
 */
export async function kvCacheDtype(
  given: KvCacheDtype,
  source: WeightSource,
): Promise<CacheDtype | undefined> {
  if (given === "auto") return undefined;
  if (DTYPES[given] === "f32") return "f32";
  const quantization = await detectQuantization(source, await readConfig(source));
  if (hasFp8Weights(quantization, await Checkpoint.open(source))) {
    throw new OptionError(
      `Cannot use option --kv-cache-dtype ${given}: for weights that are already FP8 it must be auto or f32`,
    );
  }
  return DTYPES[given];
}
