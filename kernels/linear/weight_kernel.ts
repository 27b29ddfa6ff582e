/**
 * Kernels over interleaved weights: one for each weight dtype, made of the kernel's own file, the
 * dot product they all share and the decoder of the dtype.
 *
 * @module
 */
import { KernelError } from "../../src/errors.ts";
import { type Constants, Kernel, type KernelDefinition } from "../../src/gpu/kernel.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import blockSums from "../common/block_sums.wgsl?raw";
import blockSumsShuffle from "../common/block_sums_shuffle.wgsl?raw";
import dotRows from "../common/dot_rows.wgsl?raw";
import bf16 from "../common/weights_bf16.wgsl?raw";
import f16 from "../common/weights_f16.wgsl?raw";
import f32 from "../common/weights_f32.wgsl?raw";
import fp8 from "../common/weights_fp8.wgsl?raw";
import type { LinearLayout, WeightDtype } from "./layout.ts";

const DECODERS: Readonly<Partial<Record<WeightDtype, string>>> = { bf16, f16, f32, fp8 };
/** Activation rows that one weight load serves once there are several. */
export const DEFAULT_TOKENS = 4;
/** Levels of the segment tree for 32 segments. */
const TREE_LEVELS = 5;

/** What decides which text a kernel over weights is made of. */
type WeightForm = LinearLayout & { readonly dtype: WeightDtype };

/** The kernel for weights of this form; asked for twice, the same one. */
export type WeightKernels<B extends string, P extends string> = (form: WeightForm) => Kernel<B, P>;

export function weightKernels<B extends string, P extends string>(
  definition: KernelDefinition<B, P>,
): WeightKernels<B, P> {
  const kernels = new Map<string, Kernel<B, P>>();
  return (form) => {
    const { dtype } = form;
    const shares = sharesLoads(form);
    const key = `${dtype} ${shares}`;
    const known = kernels.get(key);
    if (known !== undefined) return known;
    const parts = [definition.source, dotRows, DECODERS[dtype] ?? ""];
    const source = shares
      ? ["enable subgroups;", ...parts, blockSumsShuffle]
      : [...parts, blockSums];
    const kernel = new Kernel({ ...definition, source: source.join("\n") });
    kernels.set(key, kernel);
    return kernel;
  };
}

/** F32 weights gain with several rows only, and lose with one: their granule takes one vector of x. */
function sharesLoads({ dtype, subgroupSize }: WeightForm): boolean {
  return dtype !== "f32" && subgroupSize !== undefined;
}

/** The constants that every kernel over weights takes. */
export function weightConstants(
  form: WeightForm,
  { tokens, segments }: { readonly tokens: number; readonly segments: number },
): Constants {
  const { dtype, lanes, fp8Decode = "half", subgroupSize } = form;
  return {
    TOKENS: tokens,
    LANES: lanes,
    LEVELS: segments === 1 ? 1 : TREE_LEVELS,
    ...(sharesLoads(form) && { SUBGROUP_SIZE: subgroupSize! }),
    ...(dtype === "fp8" && { HALF_DECODE: fp8Decode === "half" }),
  };
}

/** What to bind as `scales`: weights without scales bind their words, which nobody reads there. */
export function scalesOf(
  kernel: string,
  weight: { readonly dtype: WeightDtype; readonly words: Tensor; readonly scales?: Tensor },
): Tensor {
  if (weight.dtype !== "fp8") return weight.words;
  if (weight.scales === undefined) throw new KernelError(kernel, "fp8 weights come without scales");
  return weight.scales;
}

/** Throws unless every named number is a multiple of 4, as rows read as `vec4f` must be. */
export function requireMultiplesOf4(
  kernel: string,
  numbers: Readonly<Record<string, number>>,
): void {
  for (const [name, value] of Object.entries(numbers)) {
    if (value % 4 !== 0) throw new KernelError(kernel, `${name} ${value} is not a multiple of 4`);
  }
}
