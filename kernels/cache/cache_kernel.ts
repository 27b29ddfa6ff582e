/**
 * One kernel per element type of a cache: the same text joined with that type's storage functions.
 *
 * @module
 */
import { KernelError } from "../../src/errors.ts";
import { Kernel, type KernelDefinition, specialize } from "../../src/gpu/kernel.ts";
import bf16 from "../common/cache/cache_bf16.wgsl?raw";
import f32 from "../common/cache/cache_f32.wgsl?raw";
import e4m3 from "../common/cache/cache_fp8.wgsl?raw";
import bf16Numbers from "../common/numbers/bf16.wgsl?raw";

export type CacheDtype = "bf16" | "f32" | "fp8_e4m3" | "fp8_e5m2";

export type CacheKernels<B extends string, P extends string> = Readonly<
  Record<CacheDtype, Kernel<B, P>>
>;

/** Text that a kernel has besides, by the form of the cache. */
export interface CacheForms {
  /** Elements as they are. */
  readonly plain: string;
  /** FP8 codes and scales. */
  readonly fp8: string;
}

const e5m2 = specialize("cache_fp8", e4m3, {
  FRACTION_BITS: 2,
  EXPONENT_BIAS: 15,
  LARGEST_CODE: "57344.0",
});

/** What a kernel is made of, for each element type of the cache. */
export function cacheTexts(
  source: string,
  { plain, fp8 }: CacheForms,
): Readonly<Record<CacheDtype, string>> {
  const joined = (...texts: readonly string[]) => [source, ...texts].join("\n");
  return {
    bf16: joined(plain, bf16, bf16Numbers),
    f32: joined(plain, f32),
    fp8_e4m3: joined(fp8, e4m3, bf16Numbers),
    fp8_e5m2: joined(fp8, e5m2, bf16Numbers),
  };
}

/** @param definition Its name and text, without the storage functions. */
export function cacheKernels<B extends string, P extends string>(
  definition: KernelDefinition<B, P>,
  forms: CacheForms = { plain: "", fp8: "" },
): CacheKernels<B, P> {
  const texts = cacheTexts(definition.source, forms);
  const kernel = (dtype: CacheDtype) => new Kernel<B, P>({ ...definition, source: texts[dtype] });
  return {
    bf16: kernel("bf16"),
    f32: kernel("f32"),
    fp8_e4m3: kernel("fp8_e4m3"),
    fp8_e5m2: kernel("fp8_e5m2"),
  };
}

export const isFp8 = (dtype: CacheDtype) => dtype === "fp8_e4m3" || dtype === "fp8_e5m2";

/** @throws {KernelError} when a size is not a multiple of `unit`. */
export function requireMultiples(
  kernel: string,
  unit: number,
  sizes: Readonly<Record<string, number>>,
): void {
  for (const [name, size] of Object.entries(sizes)) {
    if (size % unit !== 0)
      throw new KernelError(kernel, `${name} is ${size}, not a multiple of ${unit}`);
  }
}
