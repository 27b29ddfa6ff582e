import { Kernel } from "../../../src/gpu/kernel.ts";
import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import { requireMultiples } from "../../cache/cache_kernel.ts";
import rotate from "../../common/attention/rotate.wgsl?raw";
import {
  type ExchangeOptions,
  exchangeFor,
  KEY_TILE,
  unrolls,
  withAttention,
} from "../exchange.ts";
import { seenInWorkspace } from "../seen_keys.ts";
import source from "./mla_prefill.wgsl?raw";

const NAME = "attention/mla_prefill";

/** Rows of an item at most; they are of one sequence and their positions consecutive. */
export const PREFILL_ROW_TILE = 8;

const texts = withAttention(rotate + source);
const definition = {
  name: NAME,
  buffers: ["q", "kv", "ropes", "items", "rows", "rope_table", "state", "out"],
  params: [
    "heads",
    "nope_quads",
    "key_quads",
    "value_quads",
    "q_stride",
    "out_stride",
    "split_length",
    "first_item",
    "scale",
  ],
} as const;
const kernels = {
  memory: new Kernel({ ...definition, source: texts.memory }),
  subgroup: new Kernel({ ...definition, source: texts.subgroup }),
};

export interface MlaPrefillOptions extends ExchangeOptions {
  /** `[rows, queryStride]` f32: per head `nope + rope` elements, the rope part not yet rotated */
  readonly query: Tensor;
  /** A multiple of 4. */
  readonly queryStride: number;
  /** `[W, heads, nope + value]` f32: each head's key without its rope part, then its value */
  readonly keyValues: Tensor;
  /** `[W, rope]` f32: rope parts of the keys, rotated */
  readonly ropes: Tensor;
  /**
   * `[items, 8]` u32: first row, row count (at most `PREFILL_ROW_TILE`, of one sequence and
   * following each other), first workspace row, position of the key there (a multiple of `splitLength`), key count, 1 when this
   * is the rows' first item, 1 when it is their last, 0
   */
  readonly items: Tensor;
  /** `[rows]` vec4u: source, position, cache slot, first page */
  readonly rows: Tensor;
  /** `[positions, rope]` f32, cosine and sine in turns */
  readonly ropeTable: Tensor;
  /** `[rows, heads, 2]` f32: highest score and sum of weights of a row, between two passes */
  readonly state: Tensor;
  /**
   * `[rows, outStride]` f32; the first `heads * value` of a row are written, and hold its sum between
   * two passes
   */
  readonly out: Tensor;
  /** A multiple of 4. */
  readonly outStride: number;
  readonly heads: number;
  /** Elements of a head's key without rotation, of its rope part, of a value: multiples of 4. */
  readonly nope: number;
  readonly rope: number;
  readonly value: number;
  /** Keys of a split: a multiple of `KEY_TILE`. */
  readonly splitLength: number;
  /** Multiplies the scores. */
  readonly scale: number;
}

/**
 * Expanded latent attention of prompt rows over keys `0..position`, those of one pass.
 *
 * Binds the tensors now; the returned function records one launch over `items` items of the list.
 */
export function mlaPrefill(
  recorder: Recorder,
  options: MlaPrefillOptions,
): (firstItem: number, items: number) => void {
  const { heads, nope, rope, value, splitLength, queryStride, outStride } = options;
  requireMultiples(NAME, 4, { nope, rope, value, queryStride, outStride });
  requireMultiples(NAME, KEY_TILE, { splitLength });
  const { by, lanes, subgroupSize, tuning } = exchangeFor(recorder.device, options);
  const bound = kernels[by].bind(
    recorder,
    {
      q: options.query,
      kv: options.keyValues,
      ropes: options.ropes,
      items: options.items,
      rows: options.rows,
      rope_table: options.ropeTable,
      state: options.state,
      out: options.out,
    },
    {
      subgroupSize,
      constants: {
        NOPE: nope,
        ROPE: rope,
        VALUE: value,
        ROWS: PREFILL_ROW_TILE,
        LANES: lanes,
        UNROLLS: unrolls({ lanes, tuning }, value),
      },
      params: {
        heads,
        nope_quads: nope / 4,
        key_quads: (nope + rope) / 4,
        value_quads: value / 4,
        q_stride: queryStride,
        out_stride: outStride,
        split_length: splitLength,
        scale: options.scale,
      },
      cost: ({ grid: [count], param, step }) => {
        const { keys, pairs } = seenInWorkspace(step, param("first_item"), count);
        return {
          bytes: keys * (heads * (nope + value) + rope) * 4,
          flops: 2 * pairs * heads * (nope + rope + value),
        };
      },
    },
  );
  return (firstItem, itemCount) => {
    bound.set("first_item", firstItem);
    bound.record(itemCount, heads);
  };
}
