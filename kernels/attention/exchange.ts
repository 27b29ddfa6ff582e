/**
 * How the invocations of an attention kernel learn of each other's values: in the registers of one
 * subgroup where the adapter's subgroups are known, else through workgroup memory. No bit depends
 * on it.
 *
 * @module
 */
import split from "../common/attention_split.wgsl?raw";
import memory from "../common/exchange_memory.wgsl?raw";
import subgroup from "../common/exchange_subgroup.wgsl?raw";
import softmax from "../common/online_softmax.wgsl?raw";

/** Invocations of a workgroup, and so of a subgroup that is one, at least. */
export const FEWEST_LANES = 8;
export const MOST_LANES = 32;

/** Keys of a tile. It fixes the order of additions: a split is a multiple of it. */
export const KEY_TILE = 128;

export interface ExchangeOptions {
  /**
   * Invocations of a subgroup where every workgroup is known to be cut in subgroups of this size,
   * in order; from 8 on a workgroup is one subgroup then. Changes no bit.
   */
  readonly subgroupSize?: number | undefined;
  /** Invocations of a workgroup that is none, a power of two from 8 to 32; changes no bit. */
  readonly lanes?: number | undefined;
}

/** Something for each way. */
export interface Exchanges<T> {
  readonly memory: T;
  readonly subgroup: T;
}

/** A kernel's text, which calls `attend_split`, in its two forms. */
export function withAttention(source: string): Exchanges<string> {
  const text = softmax + split + source;
  return { memory: `${text}\n${memory}`, subgroup: `enable subgroups;\n${text}\n${subgroup}` };
}

/** The way that is taken, and the invocations of a workgroup. */
export function exchangeFor(
  device: GPUDevice,
  { subgroupSize = 0, lanes }: ExchangeOptions,
  /** Quads of a value, of which an invocation owns one at least. */
  valueQuads: number,
): { readonly by: keyof Exchanges<unknown>; readonly lanes: number } {
  if (subgroupSize >= FEWEST_LANES) {
    return { by: "subgroup", lanes: Math.min(subgroupSize, MOST_LANES) };
  }
  return { by: "memory", lanes: lanes ?? defaultLanes(device, valueQuads) };
}

/** Software adapters run few lanes at a time; a GPU wants one for four columns. */
function defaultLanes({ adapterInfo }: GPUDevice, valueQuads: number): number {
  const { subgroupMaxSize = 0 } = adapterInfo;
  if (subgroupMaxSize > 0 && subgroupMaxSize <= FEWEST_LANES) return FEWEST_LANES;
  const wanted = 2 ** Math.ceil(Math.log2(valueQuads));
  return Math.min(MOST_LANES, Math.max(FEWEST_LANES, wanted));
}
