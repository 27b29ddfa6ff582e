/**
 * `quantization_config` in the form of the compressed-tensors library: one group of modules with a
 * scheme for weights and one for activations.
 *
 * @module
 */

import { UnsupportedError } from "../../errors.ts";
import type { ConfigReader } from "../config.ts";
import type { Fp8Quantization, Int8ChannelQuantization } from "../quantization.ts";

/**
 * Int8 rows ("int-quantized": W8A8) or E4M3 codes by tensor or row ("float-quantized").
 *
 * @throws {UnsupportedError} naming any other format or scheme.
 */
export function readCompressedTensors(
  section: ConfigReader,
  name: string,
): Int8ChannelQuantization | Fp8Quantization {
  const format = section.only("format", ["int-quantized", "float-quantized"], { required: true });
  section.only("quantization_status", ["compressed", "frozen"]);
  section.skip("version", "global_compression_ratio", "run_compressed");
  readSparsity(section);
  // Empty when no rotation was merged into the weights; its fields are refused.
  section.section("transform_config", { fallback: undefined });
  const unconverted = section.strings("ignore", { fallback: [] });

  const group = onlyGroup(section);
  group.only("format", [format]);
  // Which modules are meant: their tensors' element types say the same.
  group.strings("targets", { fallback: [] });
  const weights = group.section("weights");
  const inputs = group.section("input_activations", { fallback: undefined });
  weights.only("dynamic", [false]);
  for (const scheme of inputs === undefined ? [weights] : [weights, inputs]) {
    scheme.only("num_bits", [8], { required: true });
    scheme.only("type", [format === "int-quantized" ? "int" : "float"], { required: true });
    scheme.only("symmetric", [true]);
    // How the scales were found, and an element type that the tensors have themselves.
    scheme.skip("observer", "observer_kwargs", "scale_dtype", "zp_dtype");
  }
  const required = { required: true };
  if (format === "int-quantized") {
    weights.only("strategy", ["channel"], required);
    inputs?.only("dynamic", [true], required);
    inputs?.only("strategy", ["token"], required);
    const activations = inputs === undefined ? "none" : "dynamic";
    return { method: "int8_channel", name, activations, unconverted };
  }
  const scales = weights.only("strategy", ["tensor", "channel"], required);
  if (inputs === undefined)
    return { method: "fp8", name, scales, activations: "none", unconverted };
  const dynamic = inputs.only("dynamic", [true, false], required);
  // Scales of a whole tensor found at run time would let a token's neighbours move its bits.
  inputs.only("strategy", [dynamic ? "token" : "tensor"], required);
  return { method: "fp8", name, scales, activations: dynamic ? "dynamic" : "static", unconverted };
}

function onlyGroup(section: ConfigReader): ConfigReader {
  const groups = section.section("config_groups");
  const names = groups.names();
  if (names.length !== 1) {
    throw new UnsupportedError(
      `quantization_config.config_groups with ${names.length} groups of ${section.file}`,
      "only one group is supported",
    );
  }
  return groups.section(names[0]!);
}

/** Says that the weights were stored whole; the rest describes how many happen to be zero. */
function readSparsity(section: ConfigReader): void {
  const sparsity = section.section("sparsity_config", { fallback: undefined });
  if (sparsity === undefined) return;
  sparsity.only("format", ["dense"]);
  sparsity.skip("global_sparsity", "ignore", "registry_requires_subclass", "sparsity_structure");
  sparsity.skip("targets");
}
