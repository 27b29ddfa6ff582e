/**
 * How the invocations of an attention kernel learn of each other's values: in the registers of one
 * subgroup where the adapter's subgroups are known, else through workgroup memory. No bit depends
 * on it.
 *
 * @module
 */
import { type AttentionTuning, attentionTuning } from "../../src/gpu/tuning.ts";
import split from "../common/attention/attention_split.wgsl?raw";
import values from "../common/attention/attention_values.wgsl?raw";
import memory from "../common/attention/exchange_memory.wgsl?raw";
import subgroup from "../common/attention/exchange_subgroup.wgsl?raw";
import softmax from "../common/attention/online_softmax.wgsl?raw";

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
  /**
   * Invocations of a subgroup that the kernel asks for where that is undefined: a workgroup is one
   * subgroup then. Changes no bit.
   */
  readonly askedSubgroupSize?: number | undefined;
  /** How work is shared out; changes no bit. Default: as the adapter's row in the table says. */
  readonly tuning?: AttentionTuning | undefined;
}

/** Something for each way. */
export interface Exchanges<T> {
  readonly memory: T;
  readonly subgroup: T;
}

/** A kernel's text, which calls `attend_split`, in its two forms. */
export function withAttention(source: string): Exchanges<string> {
  const text = softmax + split + values + source;
  return { memory: `${text}\n${memory}`, subgroup: `enable subgroups;\n${text}\n${subgroup}` };
}

/** How a kernel's work is shared out on a device. */
export interface Exchange {
  /** The way that is taken. */
  readonly by: keyof Exchanges<unknown>;
  /** Invocations of a workgroup. */
  readonly lanes: number;
  /** Invocations of a subgroup that the kernel asks for. */
  readonly subgroupSize?: number | undefined;
  readonly tuning: AttentionTuning;
}

export function exchangeFor(
  { adapterInfo }: GPUDevice,
  { subgroupSize = 0, askedSubgroupSize, tuning = attentionTuning(adapterInfo) }: ExchangeOptions,
): Exchange {
  if (subgroupSize >= FEWEST_LANES) {
    return { by: "subgroup", lanes: Math.min(subgroupSize, MOST_LANES), tuning };
  }
  if (askedSubgroupSize !== undefined) {
    return { by: "subgroup", lanes: askedSubgroupSize, subgroupSize: askedSubgroupSize, tuning };
  }
  return { by: "memory", lanes: tuning.lanes, tuning };
}

/** Columns of an invocation that are written out at most. */
const MOST_COLUMNS = 8;

/** Whether loops over queries and columns are written out for values of so many elements. */
export function unrolls({ lanes, tuning }: Pick<Exchange, "lanes" | "tuning">, elements: number) {
  return tuning.unrolls === true && Math.ceil(elements / 4 / lanes) <= MOST_COLUMNS;
}

/** Bytes of workgroup memory that an exchange takes for a workgroup of `queries` queries, at most. */
export function exchangeBytes({ by, lanes }: Pick<Exchange, "by" | "lanes">, queries: number) {
  if (by === "subgroup") return 0;
  const fours = KEY_TILE / 4;
  // Scores; weights, entries, and scales of one run a value.
  return 4 * lanes * queries + 16 * fours * (queries + 2);
}
