/**
 * What `--quantization` means for a checkpoint: the name of the quantization it already has, or what
 * to quantize plain weights to while they are uploaded.
 *
 * @module
 */

import { InvalidRequestError } from "../errors.ts";
import type { Checkpoint } from "./checkpoint.ts";
import type { Quantization } from "./quantization.ts";

/** What plain weights become on their way to the GPU. */
export interface UploadTarget {
  readonly dtype: "int4" | "int8" | "fp8";
  /** Columns of a row that share a scale; int4 only. */
  readonly groupColumns?: 32 | 64 | 128;
}

export interface QuantizationChoice {
  /** Undefined: weights stay as the checkpoint has them. */
  readonly uploadTo?: UploadTarget;
}

/** Plain "int4" means the middle one of the three groups. */
const UPLOAD_TARGETS: ReadonlyMap<string, UploadTarget> = new Map([
  ["int4", { dtype: "int4", groupColumns: 64 }],
  ["int4-g32", { dtype: "int4", groupColumns: 32 }],
  ["int4-g64", { dtype: "int4", groupColumns: 64 }],
  ["int4-g128", { dtype: "int4", groupColumns: 128 }],
  ["int8", { dtype: "int8" }],
  ["fp8", { dtype: "fp8" }],
]);

/** Each value that names a checkpoint's own quantization, and the `quant_method`s it agrees with. */
const AGREES_WITH: ReadonlyMap<string, readonly string[]> = new Map([
  ["awq", ["awq", "awq_marlin"]],
  ["awq_marlin", ["awq", "awq_marlin"]],
  ["gptq", ["gptq", "gptq_marlin"]],
  ["gptq_marlin", ["gptq", "gptq_marlin"]],
  ["w8a8_int8", ["w8a8_int8", "compressed-tensors"]],
  ["compressed-tensors", ["compressed-tensors"]],
  ["blockwise_int8", ["blockwise_int8"]],
  ["mxfp4", ["mxfp4"]],
]);

const PLAIN_DTYPES: readonly (string | undefined)[] = ["BF16", "F16", "F32"];

/** Values that `--quantization` takes. */
export const QUANTIZATION_VALUES: readonly string[] = [
  ...new Set([...UPLOAD_TARGETS.keys(), ...AGREES_WITH.keys()]),
];

/**
 * @param given Value of the option, when there is one.
 * @param storedDtype Element type of the checkpoint's matrices, as the files spell it.
 * @throws {InvalidRequestError} naming the value and what the checkpoint has when they contradict
 * each other, and always for weights that are FP8 already: those must be loaded as they are.
 */
export function checkQuantizationOption(
  given: string | undefined,
  quantization: Quantization,
  storedDtype: string | undefined,
): QuantizationChoice {
  if (given === undefined) return {};
  const { method } = quantization;
  if (!QUANTIZATION_VALUES.includes(given)) {
    return refuse(given, `known are ${QUANTIZATION_VALUES.join(", ")}`);
  }
  if (isFp8(quantization, storedDtype)) {
    return refuse(given, "it must not be set for weights that are already FP8");
  }
  const uploadTo = UPLOAD_TARGETS.get(given);
  if (method === "none") {
    if (!PLAIN_DTYPES.includes(storedDtype)) {
      const held = `its weights are ${storedDtype ?? "missing"}`;
      return refuse(given, `the checkpoint names no method and ${held}`);
    }
    if (uploadTo !== undefined) return { uploadTo };
    const targets = [...UPLOAD_TARGETS.keys()].join(", ");
    return refuse(
      given,
      `the checkpoint's weights are plain ${storedDtype}; ${targets} make less of them`,
    );
  }
  const { name } = quantization;
  if (AGREES_WITH.get(given)?.includes(name)) return {};
  // Blocks of int8 go by several names, this one is the best known.
  if (given === "blockwise_int8" && method === "int8_block") return {};
  const already = uploadTo === undefined ? "" : ", and quantized weights are not quantized again";
  return refuse(given, `the checkpoint is ${name}${already}`);
}

/** Whether the weights are FP8 already: some options must not be set for those. */
export function hasFp8Weights(quantization: Quantization, checkpoint: Checkpoint): boolean {
  return isFp8(quantization, matrixDtype(checkpoint));
}

/** Element type of the checkpoint's matrices, as the files spell it. */
export function matrixDtype({ tensors }: Checkpoint): string | undefined {
  return [...tensors].find(([name]) => name.endsWith("_proj.weight"))?.[1].dtype;
}

function isFp8({ method }: Quantization, storedDtype: string | undefined): boolean {
  return method === "fp8" || method === "fp8_block" || storedDtype?.startsWith("F8_") === true;
}

function refuse(given: string, reason: string): never {
  throw new InvalidRequestError(`Cannot use quantization ${given}: ${reason}`, "quantization");
}
