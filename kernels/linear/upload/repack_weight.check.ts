import { defineCheck } from "../../check.ts";
import { AWQ_OUTPUTS } from "../weights/column_scales.ts";
import { GRANULE_ROWS, repackWeight, type StagedPacking } from "./repack_weight.ts";

interface Case {
  readonly packing: StagedPacking;
  /** Rows whose granules lie side by side. */
  readonly runRows: number;
  readonly rows: number;
  readonly rowWords: number;
  readonly granulesPerRow: number;
  /** Granules of a row that are not staged: in front, and behind. */
  readonly firstGranule: number;
  readonly behind: number;
  /** Groups of rows before and after those that are staged. */
  readonly before: number;
  readonly after: number;
  /** Granules in front of the weight. */
  readonly offset: number;
  readonly sourceRow: number;
}

const small = { runRows: 8, before: 1, after: 1, offset: 3 };
const rows = { ...small, packing: "rows", firstGranule: 0, behind: 0, sourceRow: 0 } as const;

const rowsPadded = ({ before, rows, after, runRows }: Case) =>
  (before + Math.ceil(rows / runRows) + after) * runRows;
const staged = ({ granulesPerRow, firstGranule, behind }: Case) =>
  granulesPerRow - firstGranule - behind;

/** Four bits of the file: input `k` of those that are staged, output `n`. */
function codeAt({ packing, rowWords }: Case, staging: Uint32Array, k: number, n: number): number {
  if (packing === "gptq") {
    return (staging[Math.floor(k / 8) * rowWords + n]! >>> (4 * (k % 8))) & 15;
  }
  const nibble = AWQ_OUTPUTS.indexOf(n % 8);
  return (staging[k * rowWords + Math.floor(n / 8)]! >>> (4 * nibble)) & 15;
}

function wordAt(shape: Case, staging: Uint32Array, row: number, word: number): number {
  const { packing, rowWords, sourceRow } = shape;
  if (row >= shape.rows) return 0;
  if (packing === "rows") return word < rowWords ? staging[row * rowWords + word]! : 0;
  let value = 0;
  for (let i = 0; i < 8; i++) {
    value += codeAt(shape, staging, 8 * word + i, sourceRow + row) * 16 ** i;
  }
  return value;
}

export default defineCheck<Case>({
  name: "linear/repack_weight",
  cases: [
    // Rows are cut, the last granules are padding.
    { ...rows, rows: 11, rowWords: 12, granulesPerRow: 8 },
    {
      ...small,
      packing: "gptq",
      rows: 13,
      sourceRow: 5,
      rowWords: 21,
      granulesPerRow: 8,
      firstGranule: 2,
      behind: 3,
    },
    {
      ...small,
      packing: "awq",
      rows: 17,
      sourceRow: 3,
      rowWords: 3,
      granulesPerRow: 4,
      firstGranule: 1,
      behind: 1,
      runRows: 4,
    },
    {
      ...small,
      packing: "awq",
      rows: 8,
      sourceRow: 13,
      rowWords: 4,
      granulesPerRow: 4,
      firstGranule: 0,
      behind: 0,
      runRows: 8,
    },
    { ...rows, rows: 33, rowWords: 64, granulesPerRow: 16, runRows: 16, before: 0, offset: 0 },
    { ...rows, rows: 1024, rowWords: 1024, granulesPerRow: 256 },
  ],
  tunings: [{}],
  tolerance: 0,
  bytes: (shape) => 2 * 16 * shape.rows * staged(shape),
  flops: () => 0,
  mutants: [
    {
      name: "padding granules are read",
      replace: "if word >= params.row_words { return vec4u(0u); }",
      with: "",
    },
    { name: "padding rows are read", replace: "if row < params.rows {", with: "if true {" },
    {
      name: "a row too few",
      replace: "if row < params.rows {",
      with: "if row + 1u < params.rows {",
    },
    {
      name: "rows past the last group",
      replace: "if run >= params.runs { return; }",
      with: "",
      case: 1,
    },
    {
      name: "the last group is left out",
      replace: "if run >= params.runs",
      with: "if run + 1u >= params.runs",
    },
    {
      name: "the weight's place is ignored",
      replace: "params.first_granule + number",
      with: "number",
    },
    {
      name: "rows are granules apart",
      replace: "row * params.row_words",
      with: "row * 4u * params.granules",
    },
    {
      name: "granules of a row side by side",
      replace: "+ granule) * params.run_rows + lane;",
      with: "+ granule) + lane * params.granules;",
    },
    { name: "words swap places", replace: "staging[at + 1u]", with: "staging[at + 2u]" },
    {
      name: "a group has only the staged granules",
      replace: "run * params.granules_per_row",
      with: "run * params.granules",
      case: 1,
    },
    {
      name: "gptq: the first output of the file",
      replace: "params.source_row + row;",
      with: "row;",
      case: 1,
    },
    {
      name: "gptq: one word four times",
      replace: "codes[w] = staging[at];\n    at += params.row_words;",
      with: "codes[w] = staging[at];",
      case: 1,
    },
    {
      name: "awq: the first output of the file",
      replace: "output - params.source_row",
      with: "output",
      case: 2,
    },
    {
      name: "awq: outputs behind the slice",
      replace: "if run >= params.runs",
      with: "if run > params.runs",
      case: 2,
    },
    {
      name: "awq: padding rows have codes",
      replace: "select(vec4u(0u), codes, row < params.rows)",
      with: "codes",
      case: 2,
    },
    {
      name: "awq: one input eight times",
      replace: "inputs[i] = staging[at];\n      at += params.row_words;",
      with: "inputs[i] = staging[at];",
      case: 2,
    },
    { name: "awq: one word four times", replace: "+ 8u * w)", with: ")", case: 2 },
    { name: "awq: granules overlap", replace: "(32u * granule", with: "(8u * granule", case: 2 },
    { name: "awq: halves stay", replace: "& vec4u(0xffffu)", with: "& vec4u(0u)", case: 2 },
    { name: "awq: bytes stay", replace: "& vec4u(0xff00ffu)", with: "& vec4u(0u)", case: 2 },
    { name: "awq: nibbles stay", replace: "& vec4u(0xf0f0f0fu)", with: "& vec4u(0u)", case: 2 },
    {
      name: "awq: outputs in the order of nibbles",
      replace: "4u * (i % 2u) + i / 2u",
      with: "2u * i",
      case: 2,
    },
    {
      name: "awq: granules past the last",
      replace: "if item / params.row_words >= params.granules { return; }",
      with: "",
      case: 2,
    },
  ],

  inputs(shape, random) {
    const { packing, runRows, rowWords, granulesPerRow, offset } = shape;
    const fileRows = packing === "rows" ? shape.rows : staged(shape) * GRANULE_ROWS[packing];
    const granules = offset + rowsPadded(shape) * granulesPerRow;
    return {
      // A group of rows more, which must not be read.
      staging: Uint32Array.from(
        { length: (fileRows + runRows) * rowWords },
        () => random() * 2 ** 32,
      ),
      words: new Uint32Array(granules * 4).fill(0x5a5a5a5a),
    };
  },

  reference(shape, { staging, words }) {
    const { runRows, granulesPerRow, firstGranule, before, offset } = shape;
    const want = Uint32Array.from(words!);
    const groups = Math.ceil(shape.rows / runRows);
    for (let row = 0; row < groups * runRows; row++) {
      const group = before + Math.floor(row / runRows);
      for (let word = 0; word < 4 * staged(shape); word++) {
        const granule = firstGranule + Math.floor(word / 4);
        const at = (group * granulesPerRow + granule) * runRows + (row % runRows);
        want[(offset + at) * 4 + (word % 4)] = wordAt(shape, staging as Uint32Array, row, word);
      }
    }
    return { words: want };
  },

  bind(recorder, shape, { staging, words }) {
    const { packing, rows, runRows, rowWords, granulesPerRow, firstGranule, sourceRow } = shape;
    const launch = repackWeight(recorder, { packing, staging: staging!, words: words! });
    return () =>
      launch({
        rows,
        runRows,
        rowWords,
        granulesPerRow,
        firstGranule,
        sourceRow,
        granules: staged(shape),
        firstRow: shape.before * runRows,
        wordsOffset: shape.offset * 16,
      });
  },
});
