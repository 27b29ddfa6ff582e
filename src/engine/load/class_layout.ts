/**
 * The arithmetic that a caller wants of a model, as its kernels are told.
 *
 * @module
 */

import type { LinearLayout } from "../../../kernels/linear/linear_layout.ts";
import type { MatrixKernels } from "../../../kernels/linear/matrix_class.ts";
import { DeviceError, InvalidRequestError } from "../../errors.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import { takesPackedDots } from "../../gpu/tuning.ts";
import type { AttentionFacts } from "../../models/model.ts";
import { NUMERIC_CLASSES, type NumericClass } from "../../models/numeric_class.ts";

/** What `numericClass` of the engine's options may be. */
export const NUMERIC_CLASS_CHOICES = ["auto", ...NUMERIC_CLASSES] as const;

/**
 * What a layout says of the class that is wanted. `auto` never means f16 or matrices, whose operands
 * may be f16: who wants their speed asks for their rounding.
 *
 * @throws {InvalidRequestError} when the option names no class.
 * @throws {DeviceError} when the adapter cannot compute in it.
 */
export function classLayout(
  wanted: NumericClass | "auto",
  device: GPUDevice,
): Pick<LinearLayout, "packedDots" | "halfProducts" | "wordSums"> {
  switch (wanted) {
    case "auto":
      return { packedDots: takesPackedDots(device.adapterInfo) };
    case "fma128":
    case "mma128":
      return { packedDots: false };
    case "int8":
      return { packedDots: true };
    case "f16":
      if (device.features.has("shader-f16")) {
        return { halfProducts: true, wordSums: device.features.has("subgroups") };
      }
      throw lacking(wanted, "the feature shader-f16");
    default:
      throw new InvalidRequestError(
        `Cannot use numericClass ${wanted satisfies never}: it must be one of ${NUMERIC_CLASS_CHOICES.join(", ")}`,
        "numericClass",
      );
  }
}

/**
 * What a layout says of the matrices that class mma128 multiplies by, once they were found right.
 * Generated tokens have the class of prompts only where all tokens are to have one.
 *
 * @throws {InvalidRequestError} when it is wanted without its kernels.
 * @throws {DeviceError} when the adapter cannot compute in it.
 */
export async function matrixLayout(
  wanted: NumericClass | "auto",
  options: {
    readonly recorder: Recorder;
    readonly deterministicInference: boolean;
    readonly matrixKernels: MatrixKernels | undefined;
    readonly attention: AttentionFacts;
  },
): Promise<Pick<LinearLayout, "matrix">> {
  if (wanted !== "mma128") return {};
  const { recorder, deterministicInference: decode, matrixKernels, attention } = options;
  if (matrixKernels === undefined) {
    throw new InvalidRequestError(
      "Cannot use numericClass mma128: it needs the option matrixKernels, which is what the package exports by that name",
      "matrixKernels",
    );
  }
  const latents = attention.kind === "mla" ? attention : undefined;
  const matrix = await matrixKernels.workingTiles(recorder, { decode, latents });
  if (matrix === undefined)
    throw lacking(wanted, "subgroup matrices of sizes and types that kernels can be built of");
  return { matrix };
}

/** Operands and sizes of the matrices of class mma128, as "f16 16x16x16"; undefined without them. */
export function matricesOf({ matrix }: LinearLayout): string | undefined {
  if (matrix === undefined) return undefined;
  const { operand, m, n, k } = matrix.config;
  return `${operand} ${m}x${n}x${k}`;
}

function lacking(wanted: NumericClass, what: string): DeviceError {
  return new DeviceError(
    `Cannot compute in numeric class ${wanted}: this adapter does not have ${what}`,
  );
}
