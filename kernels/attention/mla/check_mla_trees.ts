/**
 * The check of `mlaDecode`, or of another form of it, for rows that follow paths: each is a row of a
 * sequence that is its path.
 *
 * @module
 */
import { defineCheck, type KernelCheck, type Mutant } from "../../check.ts";
import {
  type CheckTree,
  DEEP_TREE,
  plainInputs,
  SMALL_TREE,
  treeInputs,
  treePositions,
} from "../check_tree_rows.ts";
import { type MlaRowsShape, queryStride, SCALE, splitsOf, sum } from "./check_mla_rows.ts";

export interface MlaTreesShape extends MlaRowsShape {
  readonly trees: readonly CheckTree[];
}

/** The rows as sequences of their own. */
export function plainRows(shape: MlaTreesShape): MlaRowsShape {
  const positions = shape.lengths.map((length) => length - 1);
  const lengths = treePositions(shape.trees, positions).map((position) => position + 1);
  return { ...shape, lengths, pageSize: 1 };
}

const nodes = (base: number, { length }: readonly number[]) =>
  Array.from({ length }, (_, n) => base + n + 1);
const small = { heads: 3, latent: 20, rope: 8, nope: 2, pageSize: 3, splitLength: 256 } as const;

const CASES: readonly MlaTreesShape[] = [
  // Rows of no tree before, between and behind trees; a path across two tiles, one across two splits.
  {
    ...small,
    lengths: [41, ...nodes(125, SMALL_TREE), 8, ...nodes(253, DEEP_TREE), 300],
    trees: [
      { first: 1, parents: SMALL_TREE },
      { first: 8, parents: DEEP_TREE },
    ],
    dtype: "bf16",
  },
  // One split; a sequence that is a tree.
  {
    ...small,
    lengths: [...nodes(0, DEEP_TREE), ...nodes(60, SMALL_TREE)],
    trees: [
      { first: 0, parents: DEEP_TREE },
      { first: DEEP_TREE.length, parents: SMALL_TREE },
    ],
    pageSize: 16,
    dtype: "f32",
  },
  {
    ...small,
    lengths: nodes(126, DEEP_TREE),
    trees: [{ first: 0, parents: DEEP_TREE }],
    pageSize: 1,
    splitLength: 128,
    dtype: "fp8_e4m3",
  },
];

type Tuning = Readonly<Record<string, number>>;
type Bound = Parameters<KernelCheck<MlaRowsShape>["bind"]>;

/** What every form of the kernel is bound with. */
function treeOptions(shape: MlaTreesShape, tensors: Bound[2]) {
  return {
    queryAbsorbed: tensors.q_absorbed!,
    query: tensors.q!,
    queryStride: queryStride(shape),
    cache: tensors.cache!,
    cacheDtype: shape.dtype,
    rows: tensors.rows!,
    pageTables: tensors.page_tables!,
    ropeTable: tensors.rope_table!,
    partials: tensors.partials!,
    out: tensors.out!,
    heads: shape.heads,
    latent: shape.latent,
    rope: shape.rope,
    nope: shape.nope,
    pageSize: shape.pageSize,
    splitLength: shape.splitLength,
    scale: SCALE,
    followsPaths: true,
  };
}

export function mlaTreesCheck(
  check: KernelCheck<MlaRowsShape>,
  options: {
    readonly name: string;
    readonly tunings: readonly Tuning[];
    /** How many of the cases it has. Default all. */
    readonly caseCount?: number;
    /** Faults of the part that finds slots. */
    readonly mutants: readonly Mutant[];
    /** How the kernel's text says where a row's path stands. */
    readonly path: string;
    readonly bind: (
      recorder: Bound[0],
      own: ReturnType<typeof treeOptions>,
      tuning: Tuning,
    ) => (rows: number, maxSplits: number) => void;
  },
): KernelCheck<MlaTreesShape> {
  const { name, tunings, path, mutants, caseCount } = options;
  return defineCheck<MlaTreesShape>({
    ...check,
    name,
    cases: CASES.slice(0, caseCount),
    tunings,
    tunedCases: [0],
    // No two rows share a sequence, as long as one may be by chance as if it followed another.
    bytes: (shape) => {
      const plain = plainRows(shape);
      return sum(plain.lengths.map((length) => check.bytes({ ...plain, lengths: [length] })));
    },
    flops: (shape) => check.flops(plainRows(shape)),
    mutants: [
      ...mutants,
      { name: "every row follows the first path", replace: path, with: "rows[0].w" },
    ],
    inputs: (shape, random) => treeInputs(check.inputs(shape, random), shape),
    reference: (shape, inputs) => check.reference(plainRows(shape), plainInputs(inputs)),
    bind(recorder, shape, tensors, tuning) {
      const plain = plainRows(shape);
      const launch = options.bind(recorder, treeOptions(shape, tensors), tuning);
      return () => launch(plain.lengths.length, splitsOf(plain));
    },
  });
}
