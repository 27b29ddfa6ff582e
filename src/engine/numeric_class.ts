/**
 * The arithmetic that a caller wants of a model, as its kernels are told.
 *
 * @module
 */
import type { LinearLayout } from "../../kernels/linear/layout.ts";
import { DeviceError, InvalidRequestError } from "../errors.ts";
import { takesPackedDots } from "../gpu/tuning.ts";
import { NUMERIC_CLASSES, type NumericClass } from "../models/numeric_class.ts";

/** What `numericClass` of the engine's options may be. */
export const NUMERIC_CLASS_CHOICES = ["auto", ...NUMERIC_CLASSES] as const;

/**
 * What a layout says of the class that is wanted. `auto` never means f16: who wants its speed asks
 * for its rounding.
 *
 * @throws {InvalidRequestError} when the option names no class.
 * @throws {DeviceError} when the adapter cannot compute in it.
 */
export function classLayout(
  wanted: NumericClass | "auto",
  device: GPUDevice,
): Pick<LinearLayout, "packedDots" | "halfProducts"> {
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
    case "mma128":
      throw lacking(wanted, "subgroup matrices");
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
