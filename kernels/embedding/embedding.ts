import { UnsupportedError } from "../../src/errors.ts";
import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./embedding.wgsl?raw";

const kernel = new Kernel({
  name: "embedding/embedding",
  source,
  buffers: ["rows", "sampled", "embeddings", "table", "out"],
  params: ["cols", "stride", "first_row", "row_count"],
});

const FORMS = { BF16: 0, F16: 1, F32: 2 } as const;

/** A row's source is this | i: the token is number i of `sampled`. */
export const FROM_SAMPLED = 0x40000000;
/** A row's source is this | i: the embedding is row i of `external`. */
export const FROM_EXTERNAL = 0x80000000;

/** Consecutive rows of the embedding table that fit one binding. */
export interface EmbeddingSlab {
  readonly firstRow: number;
  readonly rowCount: number;
  /** `[rowCount, cols]` in the table's dtype, two to a word when it has 16 bits */
  readonly table: Tensor;
}

export interface EmbeddingOptions {
  /** `[rows, rowWords]` u32; the first says where the row comes from */
  readonly rows: Tensor;
  /** Default 4. */
  readonly rowWords?: number;
  /** `[..]` u32: ids the previous step drew. Needed when a row is `FROM_SAMPLED`. */
  readonly sampled?: Tensor | undefined;
  /** `[.., stride]` f32. Needed when a row is `FROM_EXTERNAL`. */
  readonly external?: Tensor | undefined;
  /** In ascending order from row 0; together the whole table. */
  readonly slabs: readonly EmbeddingSlab[];
  readonly dtype: keyof typeof FORMS;
  /** `[rows, stride]` f32 */
  readonly out: Tensor;
  readonly cols: number;
  /** Elements from one row of `out` and `external` to the next. Default `cols`. */
  readonly stride?: number;
}

/**
 * `out[r]` = the embedding of the token (or the external row) that row r starts from.
 *
 * Binds the tensors now; the returned function records one launch per slab over `rows` rows.
 * Rows whose token is not in the table are not written.
 *
 * @throws {UnsupportedError} for a 16-bit table with an odd number of columns.
 */
export function embedding(recorder: Recorder, options: EmbeddingOptions): (rows: number) => void {
  const { rows, sampled = rows, external = rows, slabs, dtype, out, cols, stride = cols } = options;
  const { rowWords = 4 } = options;
  if (dtype !== "F32" && cols % 2 !== 0) {
    throw new UnsupportedError(`${dtype} embeddings`, `${cols} columns is an odd number`);
  }
  const launches = slabs.map(({ firstRow, rowCount, table }) =>
    kernel.bind(
      recorder,
      { rows, sampled, embeddings: external, table, out },
      {
        constants: { DTYPE: FORMS[dtype], ROW_WORDS: rowWords },
        params: { cols, stride, first_row: firstRow, row_count: rowCount },
        // The host does not know beforehand which slab has how many of the rows.
        cost: ({ grid: [count] }) => ({
          bytes: (count * cols * (dtype === "F32" ? 8 : 6)) / slabs.length,
          flops: 0,
        }),
      },
    ),
  );
  return (count) => {
    for (const launch of launches) launch.record(count);
  };
}
