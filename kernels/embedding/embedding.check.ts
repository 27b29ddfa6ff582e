import { decodeBf16, decodeF16 } from "../../src/dtype.ts";
import { defineCheck, type HostArray } from "../check.ts";
import { embedding, FROM_EXTERNAL, FROM_SAMPLED } from "./embedding.ts";

interface Shape {
  readonly sources: readonly number[];
  /** Rows of each slab. */
  readonly slabs: readonly number[];
  readonly cols: number;
  readonly padding: number;
  readonly dtype: "BF16" | "F16" | "F32";
  /** Default 4. */
  readonly rowWords?: number;
}

const sum = (values: readonly number[]) => values.reduce((total, value) => total + value, 0);
const SAMPLED = [4, 0, 6, 1];

export default defineCheck<Shape>({
  name: "embedding/embedding",
  cases: [
    {
      sources: [6, FROM_SAMPLED + 2, FROM_EXTERNAL + 1, 0, 3, FROM_SAMPLED + 3, 2],
      slabs: [3, 2, 2],
      cols: 130,
      padding: 2,
      dtype: "BF16",
    },
    { sources: [5, FROM_EXTERNAL + 2, 1], slabs: [4, 3], cols: 2, padding: 2, dtype: "F16" },
    {
      sources: [FROM_SAMPLED, 6, 3],
      slabs: [7],
      cols: 67,
      padding: 1,
      dtype: "F32",
      rowWords: 1,
    },
    {
      sources: Array.from({ length: 64 }, (_, i) => (i * 397) % 1024),
      slabs: [1024],
      cols: 7168,
      padding: 0,
      dtype: "BF16",
    }, // width of the 671B model
  ],
  tunings: [{}],
  tolerance: 1e-30, // exact, but for drivers that flush subnormals
  bytes: ({ sources, cols, dtype }) => sources.length * cols * (dtype === "F32" ? 8 : 6),
  flops: () => 0,
  mutants: [
    { name: "slabs start at row 0", replace: "token - params.first_row", with: "token" },
    { name: "the end of the slab is ignored", replace: "row >= params.row_count", with: "false" },
    {
      name: "sampled ids are taken in order",
      replace: "sampled[source & ~FROM_SAMPLED]",
      with: "sampled[0]",
    },
    { name: "external rows are all row 0", replace: "(source & ~FROM_EXTERNAL)", with: "0u" },
    {
      name: "external rows are left out",
      replace: "params.first_row == 0u",
      with: "false",
      case: 1,
    },
    { name: "halves are swapped", replace: "word << 16u", with: "word" },
    {
      name: "rows are cols apart",
      replace: "group.x * params.stride",
      with: "group.x * params.cols",
    },
    { name: "F16 is read as BF16", replace: "DTYPE == F16", with: "false", case: 1 },
    {
      name: "sources are always four words apart",
      replace: "group.x * ROW_WORDS",
      with: "group.x * 4u",
      case: 2,
    },
    { name: "the last word is left out", replace: "word < words", with: "word + 1u < words" },
  ],

  inputs({ sources, slabs, cols, padding, dtype, rowWords = 4 }, random) {
    const arrays: Record<string, HostArray> = {
      rows: Uint32Array.from(
        sources.flatMap((source) => [source, ...Array.from({ length: rowWords - 1 }, () => 7)]),
      ),
      sampled: Uint32Array.from(SAMPLED),
      external: Float32Array.from({ length: 3 * (cols + padding) }, random),
    };
    slabs.forEach((rowCount, i) => {
      const length = rowCount * cols;
      arrays[`table${i}`] =
        dtype === "F32"
          ? Float32Array.from({ length }, random)
          : // Exponents below the largest, so that no element is infinite or NaN.
            Uint16Array.from({ length }, () => (random() * 0x10000) & 0xbbff);
    });
    return arrays;
  },

  reference({ sources, slabs, cols, padding, dtype }, inputs) {
    const stride = cols + padding;
    const decode = { BF16: decodeBf16, F16: decodeF16, F32: (value: number) => value }[dtype];
    const tables = slabs.flatMap((rowCount, i) =>
      Array.from({ length: rowCount }, (_, r) => {
        const row = Array.from(inputs[`table${i}`]!.subarray(r * cols, (r + 1) * cols));
        return row.map(decode);
      }),
    );
    const out = new Float64Array(sources.length * stride).fill(Number.NaN);
    sources.forEach((source, r) => {
      if (source >= FROM_EXTERNAL) {
        const first = (source - FROM_EXTERNAL) * stride;
        out.set(inputs.external!.subarray(first, first + cols), r * stride);
        return;
      }
      const token = source >= FROM_SAMPLED ? SAMPLED[source - FROM_SAMPLED]! : source;
      out.set(tables[token]!, r * stride);
    });
    return { out };
  },

  bind(recorder, { sources, slabs, cols, padding, dtype, rowWords = 4 }, tensors) {
    const launch = embedding(recorder, {
      rows: tensors.rows!,
      rowWords,
      sampled: tensors.sampled!,
      external: tensors.external!,
      slabs: slabs.map((rowCount, i) => ({
        firstRow: sum(slabs.slice(0, i)),
        rowCount,
        table: tensors[`table${i}`]!,
      })),
      dtype,
      out: tensors.out!,
      cols,
      stride: cols + padding,
    });
    return () => launch(sources.length);
  },
});
