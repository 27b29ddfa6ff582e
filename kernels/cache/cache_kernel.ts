/**
 * One kernel per element type of a cache: the same text joined with that type's storage functions.
 *
 * @module
 */
import { KernelError } from "../../src/errors.ts";
import { Kernel, type KernelDefinition } from "../../src/gpu/kernel.ts";
import bf16 from "../common/cache_bf16.wgsl?raw";
import f32 from "../common/cache_f32.wgsl?raw";

export type CacheDtype = "bf16" | "f32";

export type CacheKernels<B extends string, P extends string> = Readonly<
  Record<CacheDtype, Kernel<B, P>>
>;

/** @param definition Its name and text, without the storage functions. */
export function cacheKernels<B extends string, P extends string>(
  definition: KernelDefinition<B, P>,
): CacheKernels<B, P> {
  const { source } = definition;
  return {
    bf16: new Kernel<B, P>({ ...definition, source: `${source}\n${bf16}` }),
    f32: new Kernel<B, P>({ ...definition, source: `${source}\n${f32}` }),
  };
}

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
