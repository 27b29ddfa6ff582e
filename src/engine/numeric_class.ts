/**
 * The arithmetic that a caller wants of a model, as its kernels are told.
 *
 * @module
 */
import type { LinearLayout } from "../../kernels/linear/layout.ts";
import { matrixTilesFor } from "../../kernels/linear/matrix_tiles.ts";
import { DeviceError, InvalidRequestError } from "../errors.ts";
import { takesPackedDots } from "../gpu/tuning.ts";
import { NUMERIC_CLASSES, type NumericClass } from "../models/numeric_class.ts";

/** What `numericClass` of the engine's options may be. */
export const NUMERIC_CLASS_CHOICES = ["auto", ...NUMERIC_CLASSES] as const;

/**
 * What a layout says of the class that is wanted. `auto` never means f16 or matrices, whose operands
 * may be f16: who wants their speed asks for their rounding.
 *
 * @param oneClass Whether generated tokens have the class of prompts, also where another is faster.
 *
 * @throws {InvalidRequestError} when the option names no class.
 * @throws {DeviceError} when the adapter cannot compute in it.
 */
export function classLayout(
  wanted: NumericClass | "auto",
  device: GPUDevice,
  { oneClass }: { readonly oneClass: boolean },
): Pick<LinearLayout, "packedDots" | "halfProducts" | "matrix"> {
  switch (wanted) {
    case "auto":
      return { packedDots: takesPackedDots(device.adapterInfo) };
    case "fma128":
      return {};
    case "int8":
      return { packedDots: true };
    case "f16":
      if (device.features.has("shader-f16")) return { halfProducts: true };
      throw lacking(wanted, "the feature shader-f16");
    case "mma128": {
      const matrix = matrixTilesFor(device, { decode: oneClass });
      if (matrix !== undefined) return { matrix };
      throw lacking(wanted, "subgroup matrices of sizes and types that kernels can be built of");
    }
    default:
      throw new InvalidRequestError(
        `numericClass must be one of ${NUMERIC_CLASS_CHOICES.join(", ")}, got ${wanted satisfies never}`,
        "numericClass",
      );
  }
}

function lacking(wanted: NumericClass, what: string): DeviceError {
  return new DeviceError(
    `Cannot compute in numeric class ${wanted}: this adapter does not have ${what}`,
  );
}
