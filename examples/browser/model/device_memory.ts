/**
 * How much memory the GPU may have.
 *
 * @module
 */

const GIB = 2 ** 30;

/**
 * A guess at the bytes that the GPU has, which WebGPU does not tell: half of the machine's memory
 * where the browser tells that, else 4 GiB.
 */
export function guessDeviceMemory(): number {
  const { deviceMemory } = navigator as { readonly deviceMemory?: number };
  return deviceMemory === undefined ? 4 * GIB : Math.max((deviceMemory * GIB) / 2, GIB);
}
