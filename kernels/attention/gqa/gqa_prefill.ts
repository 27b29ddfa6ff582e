import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import { requireMultiples } from "../../cache/cache_kernel.ts";
import cached from "../../common/cache/cached_entries.wgsl?raw";
import queries from "../../common/inputs/query_rows.wgsl?raw";
import { itemRows } from "../seen_keys.ts";
import { gqaCost } from "./gqa_cost.ts";
import {
  type GqaAttentionOptions,
  GqaKernels,
  gqaConstants,
  gqaParams,
  headTiles,
} from "./gqa_decode.ts";
import source from "./gqa_prefill.wgsl?raw";

const NAME = "attention/gqa_prefill";

/** Rows of an item at most; they are of one sequence and their positions consecutive. */
export const GQA_PREFILL_ROW_TILE = 8;

export interface GqaPrefillOptions extends GqaAttentionOptions {
  /** `[items, 8]` u32: first row, row count (at most `GQA_PREFILL_ROW_TILE`), six unused */
  readonly items: Tensor;
}

const kernels = new GqaKernels({
  name: NAME,
  source: queries + cached + source,
  buffers: ["q", "cache", "rows", "page_tables", "items", "sinks", "out"],
  params: [
    "heads",
    "kv_heads",
    "head_tiles",
    "head_quads",
    "q_stride",
    "out_stride",
    "page_size",
    "split_length",
    "first_item",
    "window",
    "has_sinks",
    "scale",
  ],
});

/**
 * Grouped-query attention of prompt rows over the keys they see, with the bits of `gqaDecode`.
 *
 * Binds the tensors now; the returned function records one launch over `items` items of the list.
 */
export function gqaPrefill(
  recorder: Recorder,
  options: GqaPrefillOptions,
): (firstItem: number, items: number) => void {
  const { query, queryStride, cache, rows, pageTables, items, sinks, out, kvHeads } = options;
  requireMultiples(NAME, 4, { queryStride });
  const { kernel, lanes, subgroupSize, tuning } = kernels.for(recorder, options);
  const tile = headTiles(options, tuning.promptHeads);
  const shape = { rows: GQA_PREFILL_ROW_TILE, heads: tile.heads, lanes, tuning };
  const bound = kernel.bind(
    recorder,
    // A binding cannot stay empty.
    { q: query, cache, rows, page_tables: pageTables, items, sinks: sinks ?? rows, out },
    {
      subgroupSize,
      constants: gqaConstants(NAME, shape, options),
      params: { ...gqaParams(options), head_tiles: tile.tiles, q_stride: queryStride },
      cost: ({ grid: [itemCount], param, step }) =>
        gqaCost(options, step, itemRows(step, param("first_item"), itemCount)),
    },
  );
  return (firstItem, itemCount) => {
    bound.set("first_item", firstItem);
    bound.record(itemCount, kvHeads * tile.tiles);
  };
}
