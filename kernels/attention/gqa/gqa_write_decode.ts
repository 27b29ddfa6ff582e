import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import {
  type GqaVectorOptions,
  vectorConstants,
  vectorFlops,
  vectorParams,
  vectorText,
} from "../../cache/gqa_vectors.ts";
import { gqaEntryBytes } from "../../cache/gqa_write.ts";
import part from "../../common/attention/gqa_part.wgsl?raw";
import fp8 from "../../common/cache/vector_write_fp8.wgsl?raw";
import plain from "../../common/cache/vector_write_quads.wgsl?raw";
import { exchangeBytes } from "../exchange.ts";
import { type DecodeLaunch, decodeLaunch, fewOf } from "../split_launch.ts";
import { gqaCost } from "./gqa_cost.ts";
import {
  GqaKernels,
  type GqaRowOptions,
  gqaConstants,
  gqaParams,
  headTiles,
} from "./gqa_decode.ts";
import source from "./gqa_write_decode.wgsl?raw";

const NAME = "attention/gqa_write_decode";
/** Of each query and key sums of squares, of key and value largest magnitudes, and what rounds up. */
const OTHER_BYTES = 512;

const kernels = new GqaKernels(
  {
    name: NAME,
    source: vectorText + part + source,
    buffers: ["projected", "norms", "rows", "rope_table", "cache", "page_tables", "sinks", "out"],
    params: [
      "projected_stride",
      "query_column",
      "key_column",
      "value_column",
      "key_norm",
      "eps",
      "heads",
      "kv_heads",
      "head_quads",
      "out_stride",
      "page_size",
      "split_length",
      "max_splits",
      "direct",
      "window",
      "has_sinks",
      "scale",
    ],
  },
  { plain, fp8 },
);

export interface GqaWriteDecodeOptions extends GqaVectorOptions, GqaRowOptions {
  /** `[rows, maxSplits, heads, 2 + headDim]` f32; needed for rows of more than one split */
  readonly partials?: Tensor | undefined;
  /** Rounds rows of several splits, those alone, to E4M3 as `mergeSplits` does. Default false. */
  readonly roundsMerged?: boolean | undefined;
}

/**
 * What `gqaWrite` and `gqaDecode` do, with their bits, for generated rows that are each the only one
 * of their sequence.
 *
 * Binds the tensors now; the returned function records one launch when the longest row has one
 * split, else two, and takes no groups. Undefined where this device has no room for what a workgroup
 * holds.
 */
export function gqaWriteDecode(
  recorder: Recorder,
  options: GqaWriteDecodeOptions,
): DecodeLaunch | undefined {
  const { projected, norms, rows, ropeTable, cache, pageTables, sinks } = options;
  const { partials, out, kvHeads, headDim, cacheDtype } = options;
  const { kernel, ...exchange } = kernels.for(recorder, options);
  const { rowHeads } = exchange.tuning;
  const fits = (most: number) => {
    const { heads, tiles } = headTiles(options, most);
    const kept = tiles > 1 ? gqaEntryBytes(cacheDtype, 1, headDim) : 0;
    const bytes = (heads + 2) * headDim * 4 + kept + exchangeBytes(exchange, heads) + OTHER_BYTES;
    return bytes <= recorder.device.limits.maxComputeWorkgroupStorageSize;
  };
  if (!fits(rowHeads)) return undefined;
  const bindWith = (most: number, target: Tensor, direct: boolean) => {
    const { heads, tiles } = headTiles(options, most);
    const bound = kernel.bind(
      recorder,
      {
        // A binding cannot stay empty.
        projected,
        norms: norms?.weights ?? ropeTable,
        rows,
        rope_table: ropeTable,
        cache,
        page_tables: pageTables,
        sinks: sinks ?? rows,
        out: target,
      },
      {
        subgroupSize: exchange.subgroupSize,
        constants: {
          ...gqaConstants(NAME, { rows: 1, heads, ...exchange }, options),
          ...vectorConstants(NAME, options),
          MOST_HEADS: heads + 1,
          SHARES: tiles > 1,
        },
        params: {
          ...gqaParams(options),
          ...vectorParams(options),
          max_splits: 1,
          direct: direct ? 1 : 0,
        },
        cost: ({ step }) => {
          const { decodeRows } = step;
          const { bytes, flops } = gqaCost(options, step, [[0, decodeRows]]);
          const read = 4 * headDim * (options.heads + 2 * kvHeads);
          const written = gqaEntryBytes(cacheDtype, kvHeads, headDim);
          return {
            bytes: bytes + decodeRows * (read + written),
            flops: flops + decodeRows * vectorFlops(options),
          };
        },
      },
    );
    return { bound, headTiles: kvHeads * tiles };
  };
  return decodeLaunch(recorder, {
    kernel: NAME,
    partials,
    out,
    groups: undefined,
    merge: options,
    bind: (target, direct) => bindWith(rowHeads, target, direct),
    few: fits(1) ? fewOf(exchange.tuning, options.heads / kvHeads, bindWith) : undefined,
  });
}
