import { KernelError } from "../../src/errors.ts";
import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import { requireMultiples } from "../cache/cache_kernel.ts";
import softmax from "../common/online_softmax.wgsl?raw";
import prefillRows from "../common/prefill_rows.wgsl?raw";
import rotate from "../common/rotate.wgsl?raw";
import source from "./mla_prefill.wgsl?raw";
import { seenInWorkspace } from "./seen_keys.ts";
import { type SharingOptions, sharingConstants, withSharedReads } from "./shared_reads.ts";

const NAME = "attention/mla_prefill";
const WORKGROUP_BYTES = 16384;

/** Rows of an item at most; their positions ascend. */
export const PREFILL_ROW_TILE = 8;
/** Keys of a tile. It fixes the order of additions: a split is a multiple of it. */
const PREFILL_KEY_TILE = 64;

const MAX_LANES = 32;
/** Elements of a head's query at most, whatever the lanes. */
export const MLA_PREFILL_MAX_QUERY =
  WORKGROUP_BYTES / (4 * PREFILL_ROW_TILE) - 2 * PREFILL_KEY_TILE - MAX_LANES - 3;

const texts = withSharedReads(softmax + rotate + prefillRows + source);
const definition = {
  name: NAME,
  buffers: ["q", "kv", "ropes", "items", "rows", "rope_table", "state", "out"],
  params: ["heads", "q_stride", "out_stride", "split_length", "first_item", "key_quads", "scale"],
} as const;
const kernel = new Kernel({ ...definition, source: texts.plain });
const sharingKernel = new Kernel({ ...definition, source: texts.shuffle });

export interface MlaPrefillOptions extends SharingOptions {
  /** `[rows, queryStride]` f32: per head `nope + rope` elements, the rope part not yet rotated */
  readonly query: Tensor;
  readonly queryStride: number;
  /** `[W, heads, nope + value]` f32: each head's key without its rope part, then its value */
  readonly keyValues: Tensor;
  /** `[W, rope]` f32: rope parts of the keys, rotated */
  readonly ropes: Tensor;
  /**
   * `[items, 8]` u32: first row, row count (at most `PREFILL_ROW_TILE`, of one sequence), first
   * workspace row, position of the key there (a multiple of `splitLength`), key count, 1 when this
   * is the rows' first item, 1 when it is their last, 0
   */
  readonly items: Tensor;
  /** `[rows]` vec4u: source, position, cache slot, first page */
  readonly rows: Tensor;
  /** `[positions, rope]` f32, cosine and sine in turns */
  readonly ropeTable: Tensor;
  /** `[rows, heads, 2 + value]` f32: what a row has seen, between two passes */
  readonly state: Tensor;
  /** `[rows, outStride]` f32; the first `heads * value` of a row are written */
  readonly out: Tensor;
  readonly outStride: number;
  readonly heads: number;
  /** Elements of a head's key without rotation, of its rope part, of a value: multiples of 4. */
  readonly nope: number;
  readonly rope: number;
  readonly value: number;
  /** Keys of a split: a multiple of `PREFILL_KEY_TILE`. */
  readonly splitLength: number;
  /** Multiplies the scores. */
  readonly scale: number;
  /** Invocations of a workgroup, a power of two up to 32; changes no bit. */
  readonly lanes?: number;
  /** Keys an invocation scores at once, a power of two; changes no bit. */
  readonly keys?: number;
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
  const { heads, nope, rope, value, splitLength, items, rows, state, out } = options;
  const { lanes = defaultLanes(value), keys = Math.min(4, PREFILL_KEY_TILE / lanes) } = options;
  requireMultiples(NAME, 4, { nope, rope, value });
  requireMultiples(NAME, PREFILL_KEY_TILE, { splitLength });
  const bytes = 4 * PREFILL_ROW_TILE * (nope + rope + 2 * PREFILL_KEY_TILE + lanes + 3);
  if (bytes > WORKGROUP_BYTES) {
    throw new KernelError(NAME, `a query of ${nope + rope} elements needs ${bytes} bytes`);
  }
  const bound = (options.subgroupSize === undefined ? kernel : sharingKernel).bind(
    recorder,
    {
      q: options.query,
      kv: options.keyValues,
      ropes: options.ropes,
      items,
      rows,
      rope_table: options.ropeTable,
      state,
      out,
    },
    {
      constants: {
        ...{ NOPE: nope, ROPE: rope, VALUE: value, LANES: lanes, KEYS: keys },
        ...sharingConstants(options),
      },
      params: {
        heads,
        q_stride: options.queryStride,
        out_stride: options.outStride,
        split_length: splitLength,
        key_quads: (nope + rope) / 4,
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

/** One invocation for four columns of a value, a software adapter's eight at least. */
function defaultLanes(value: number): number {
  return Math.min(MAX_LANES, Math.max(8, 2 ** Math.ceil(Math.log2(value / 4))));
}
