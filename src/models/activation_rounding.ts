/**
 * How a checkpoint's scheme rounds the inputs of its quantized linears.
 *
 * @module
 */
import type { ActivationRounding } from "../../kernels/norm/quantize.ts";
import type { Quantization } from "../checkpoint/quantization.ts";
import { UnsupportedError } from "../errors.ts";
import type { ModelOptions } from "./model_options.ts";

/**
 * Undefined where inputs stay as they are: a scheme that quantizes weights only, and one with
 * scales that the checkpoint's authors measured beforehand, whose rounding was made for kernels
 * that cannot do without it.
 */
export function activationRounding(quantization: Quantization): ActivationRounding | undefined {
  switch (quantization.method) {
    case "fp8_block":
      return { format: "e4m3", group: "block", powersOfTwo: quantization.powersOfTwo ?? false };
    case "int8_block":
      return { format: "int8", group: "block" };
    case "fp8":
      return quantization.activations === "dynamic" ? { format: "e4m3", group: "row" } : undefined;
    case "int8_channel":
      return quantization.activations === "dynamic" ? { format: "int8", group: "row" } : undefined;
    default:
      return undefined;
  }
}

/** @throws {UnsupportedError} when several ranks would have to agree on the scale of a row. */
export function checkRounding(
  { rounding }: { readonly rounding: ActivationRounding | undefined },
  { communicator, quantizeActivations }: ModelOptions,
): void {
  const { size } = communicator;
  if (size === 1 || !quantizeActivations || rounding?.group !== "row") return;
  throw new UnsupportedError(
    `inputs of self_attn.o_proj and mlp.down_proj rounded by rows on ${size} ranks`,
    "a rank has a part of each row only, and rows share a scale",
  );
}
