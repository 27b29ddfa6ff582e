/**
 * The arithmetic that a caller wants of a model, as its kernels are told.
 *
 * @module
 */

import type { LinearLayout } from "../../../kernels/linear/linear_layout.ts";
import type { MatrixKernels } from "../../../kernels/linear/matrix_class.ts";
import type { WeightDtype } from "../../../kernels/linear/weights/layout.ts";
import { DeviceError, InvalidRequestError } from "../../errors.ts";
import { SUBGROUP_MATRIX } from "../../gpu/device.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import { takesPackedDots } from "../../gpu/tuning.ts";
import type { AttentionFacts, ModelShape } from "../../models/model.ts";
import { NUMERIC_CLASS_CHOICES, type NumericClass } from "../../models/numeric_class.ts";

/**
 * What a layout says of the class that is wanted. `auto` never means f16: on the one GPU where it was
 * measured it was hardly faster than f32, and rows beside others did not have the bits of rows alone.
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

/** What decides whether class mma128 is tried by itself. */
interface MatrixChoice {
  readonly device: GPUDevice;
  readonly deterministicInference: boolean;
  readonly matrixKernels?: MatrixKernels | undefined;
  /** Whether pages go to or come from other engines, whose adapters may be others. */
  readonly transfersPages: boolean;
  readonly prefixStore: unknown;
  /** Whether int8 weights meet activations as codes, which are added up exactly. */
  readonly usesCodes: boolean;
}

/**
 * Whether prompts may be computed in class mma128: where it is asked for, and by itself where the
 * adapter has matrices and nothing speaks for other kernels.
 */
export function triesMatrices(
  wanted: NumericClass | "auto",
  { device, deterministicInference, matrixKernels, usesCodes, ...pages }: MatrixChoice,
): boolean {
  if (wanted !== "auto") return wanted === "mma128";
  // Of one row, vectors are faster: where all tokens are to have one class it is theirs.
  const isFree = matrixKernels !== undefined && !deterministicInference && !usesCodes;
  // What others compute or read later has to have the same bits there.
  const staysHere = !pages.transfersPages && pages.prefixStore === undefined;
  return isFree && staysHere && device.features.has(SUBGROUP_MATRIX);
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
  options: Omit<MatrixChoice, "device"> & {
    readonly recorder: Recorder;
    readonly attention: AttentionFacts;
  },
): Promise<Pick<LinearLayout, "matrix">> {
  const { recorder, deterministicInference: decode, matrixKernels, attention } = options;
  if (!triesMatrices(wanted, { ...options, device: recorder.device })) return {};
  if (matrixKernels === undefined) {
    throw new InvalidRequestError(
      "Cannot use numericClass mma128: it needs the option matrixKernels, which is what the package exports by that name",
      "matrixKernels",
    );
  }
  const latents = attention.kind === "mla" ? attention : undefined;
  const matrix = await matrixKernels.workingTiles(recorder, { decode, latents });
  if (matrix !== undefined) return { matrix };
  if (wanted === "auto") return {};
  throw lacking(wanted, "subgroup matrices of sizes and types that kernels can be built of");
}

/** Whether prompts have other bits than generated tokens. */
export function promptsDiffer(
  shape: Pick<ModelShape, "promptsDiffer">,
  { weightFormats }: { readonly weightFormats: WeightFormats },
  options: Omit<MatrixChoice, "usesCodes"> & {
    readonly numericClass?: NumericClass | "auto" | undefined;
  },
): boolean {
  const { deterministicInference, numericClass = "auto", device } = options;
  if (deterministicInference) return false;
  const usesCodes = mayUseCodes(weightFormats, device);
  return shape.promptsDiffer || triesMatrices(numericClass, { ...options, usesCodes });
}

type WeightFormats = ReadonlyMap<WeightDtype, unknown>;

/** Whether a model has int8 weights that meet codes where they are multiplied by packed dots. */
export function mayUseCodes(weightFormats: WeightFormats, { adapterInfo }: GPUDevice): boolean {
  return weightFormats.has("int8") && takesPackedDots(adapterInfo);
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
