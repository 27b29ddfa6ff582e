/**
 * Grouped-query attention on a paged cache, row by row and item by item.
 *
 * @module
 */
import { gqaDecode } from "../../../kernels/attention/gqa/gqa_decode.ts";
import { gqaPrefill } from "../../../kernels/attention/gqa/gqa_prefill.ts";
import { blank, type Cache, describeRows, type Row, read, runAll, tensor } from "./mla.ts";

export interface GqaModel {
  readonly heads: number;
  readonly kvHeads: number;
  readonly headDim: number;
  readonly scale: number;
  readonly window?: number;
  readonly sinks?: Float32Array;
}

export interface GqaInputs {
  readonly model: GqaModel;
  /** Entries of `2 * kvHeads * headDim` elements. */
  readonly cache: Cache;
  readonly rows: readonly Row[];
  /** `[rows, heads * headDim]` */
  readonly query: Float32Array;
  readonly splitLength: number;
  readonly subgroupSize?: number | undefined;
}

function options({ model, cache, rows, query, splitLength, subgroupSize }: GqaInputs) {
  const stride = model.heads * model.headDim;
  return {
    ...model,
    sinks: model.sinks === undefined ? undefined : tensor(model.sinks),
    query: tensor(query),
    queryStride: stride,
    cache: cache.tensor,
    cacheDtype: "f32" as const,
    ...describeRows(cache, rows),
    out: blank(rows.length * stride),
    outStride: stride,
    pageSize: cache.pageSize,
    splitLength,
    subgroupSize,
  };
}

/**
 * `[rows, heads * headDim]` of the form for generated rows.
 *
 * @param splits Launched for each row; one is the form without a reduce.
 */
export async function decodeRows(inputs: GqaInputs, splits: number): Promise<Float32Array> {
  const { model, rows } = inputs;
  const bound = options(inputs);
  await runAll((recorder) => {
    const partials = blank(rows.length * splits * model.heads * (2 + model.headDim));
    const launch = gqaDecode(recorder, { ...bound, ...(splits > 1 && { partials }) });
    return () => launch(rows.length, splits);
  });
  return await read(bound.out);
}

/**
 * `[rows, heads * headDim]` of the form for prompt rows.
 *
 * @param tiles Rows of each item, first row first.
 */
export async function prefillRows(
  inputs: GqaInputs,
  tiles: readonly number[],
): Promise<Float32Array> {
  const bound = options(inputs);
  const items: number[] = [];
  let row = 0;
  for (const tile of tiles) {
    items.push(row, tile, 0, 0, 0, 0, 0, 0);
    row += tile;
  }
  await runAll((recorder) => {
    const launch = gqaPrefill(recorder, { ...bound, items: tensor(Uint32Array.from(items)) });
    return () => launch(0, tiles.length);
  });
  return await read(bound.out);
}
