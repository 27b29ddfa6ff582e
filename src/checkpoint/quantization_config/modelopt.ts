/**
 * NVIDIA ModelOpt's description of a quantization, in hf_quant_config.json and in config.json.
 *
 * @module
 */

import type { ConfigReader } from "../config.ts";
import type { Fp8Quantization, Quantization } from "../quantization.ts";

/**
 * hf_quant_config.json, of whose algorithms only FP8 by tensor has the same tensors as other
 * quantizers write.
 */
export function readModeloptFile(file: ConfigReader): Quantization {
  file.skip("producer");
  const fields = file.section("quantization");
  if (fields.has("quant_algo")) {
    fields.only("quant_algo", ["FP8"]);
    const unconverted = fields.strings("exclude_modules", { fallback: [] });
    file.finish();
    return { ...STATIC_FP8, unconverted };
  }
  // Without an algorithm the weights are plain; a quantized cache has scales of its own.
  fields.skip("exclude_modules");
  file.finish();
  return { method: "none" };
}

/** `quantization_config` with the method "modelopt". */
export function readModelopt(section: ConfigReader): Fp8Quantization {
  section.only("quant_algo", ["FP8"], { required: true });
  section.skip("producer");
  const groups = section.section("config_groups", { fallback: undefined });
  for (const name of groups?.names() ?? []) {
    const group = groups!.section(name);
    group.strings("targets", { fallback: [] });
    for (const part of ["weights", "input_activations"]) {
      const scheme = group.section(part);
      scheme.only("num_bits", [8]);
      scheme.only("type", ["float"]);
      scheme.only("dynamic", [false]);
    }
  }
  return { ...STATIC_FP8, unconverted: section.strings("ignore", { fallback: [] }) };
}

const STATIC_FP8 = {
  method: "fp8",
  name: "modelopt",
  scales: "tensor",
  activations: "static",
} as const;
