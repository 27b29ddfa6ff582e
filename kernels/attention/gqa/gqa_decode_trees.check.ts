import { defineCheck } from "../../check.ts";
import {
  type CheckTree,
  DEEP_TREE,
  plainInputs,
  SMALL_TREE,
  TREE_MUTANTS,
  treeInputs,
  treePositions,
} from "../check_tree_rows.ts";
import { exchangeOptions } from "../check_tuning.ts";
import check from "./gqa_decode.check.ts";
import { gqaDecode } from "./gqa_decode.ts";
import { type GqaShape, gqaOptions, gqaRows, gqaSplits } from "./gqa_reference.ts";

export interface GqaTreesShape extends GqaShape {
  readonly trees: readonly CheckTree[];
}

/** The rows as sequences of their own. */
export function plainRows(shape: GqaTreesShape): GqaShape {
  const { sequences, trees } = shape;
  const positions = sequences.flatMap(({ first, rows }) =>
    Array.from({ length: rows }, (_, r) => first + r),
  );
  const rows = treePositions(trees, positions);
  return { ...shape, sequences: rows.map((first) => ({ first, rows: 1 })), pageSize: 1 };
}

const small = { heads: 4, kvHeads: 2, headDim: 20, pageSize: 3, splitLength: 256 } as const;

// The check of gqa_decode for rows that follow paths: each is a row of a sequence that is its path.
export default defineCheck<GqaTreesShape>({
  ...check,
  name: "attention/gqa_decode of trees",
  cases: [
    // Rows of no tree before, between and behind trees; a path across two tiles, one across two splits.
    {
      ...small,
      sequences: [
        { first: 40, rows: 1 },
        { first: 125, rows: SMALL_TREE.length },
        { first: 7, rows: 2 },
        { first: 253, rows: DEEP_TREE.length },
        { first: 299, rows: 1 },
      ],
      trees: [
        { first: 1, parents: SMALL_TREE },
        { first: 9, parents: DEEP_TREE },
      ],
      dtype: "bf16",
      sinks: true,
    },
    // One split; a window that begins in a tree; a sequence that is a tree.
    {
      ...small,
      sequences: [
        { first: 0, rows: DEEP_TREE.length },
        { first: 60, rows: SMALL_TREE.length },
      ],
      trees: [
        { first: 0, parents: DEEP_TREE },
        { first: DEEP_TREE.length, parents: SMALL_TREE },
      ],
      pageSize: 16,
      dtype: "f32",
      window: 4,
    },
    {
      ...small,
      sequences: [{ first: 126, rows: DEEP_TREE.length }],
      trees: [{ first: 0, parents: DEEP_TREE }],
      pageSize: 1,
      splitLength: 128,
      dtype: "fp8_e4m3",
    },
  ],
  tunings: [{ subgroups: 1 }, {}],
  tunedCases: [0],
  bytes: (shape) => check.bytes(plainRows(shape)),
  flops: (shape) => check.flops(plainRows(shape)),
  mutants: [
    ...TREE_MUTANTS,
    { name: "every row follows the first path", replace: "rows[members.x].w", with: "rows[0].w" },
  ],

  inputs: (shape, random) => treeInputs(check.inputs(shape, random), shape),
  reference: (shape, inputs) => check.reference(plainRows(shape), plainInputs(inputs)),

  bind(recorder, shape, tensors, tuning) {
    const launch = gqaDecode(recorder, {
      ...gqaOptions(shape, tensors),
      partials: tensors.partials!,
      followsPaths: true,
      ...exchangeOptions(recorder.device, tuning),
    });
    return () => launch(gqaRows(shape), gqaSplits(plainRows(shape)));
  },
});
