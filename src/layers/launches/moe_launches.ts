/**
 * Which launches a mixture of experts takes, up to its slots or the residual stream.
 *
 * Pairs of rows and experts are sorted once an expert serves several rows; the bits are the same
 * either way. Where matrices multiply prompt rows, those have launches of their own behind the
 * generated ones.
 *
 * @module
 */
import type { TileSize } from "../../../kernels/moe/experts/expert_tiles.ts";
import { formOf } from "../../gpu/row_forms.ts";
import type { Step, StepRows } from "../batch.ts";
import type { MatrixRows } from "../block_rows.ts";
import type { InputRounding } from "../rounded_rows.ts";
import { always, type LayerLaunch } from "./launch_list.ts";

/** How many pairs an expert has. */
export interface MoeSlots {
  /** Of a row: routed choices, then shared experts. */
  readonly slots: number;
  /** Physical experts, shared ones too. */
  readonly expertCount: number;
}

export interface MoeLaunchFacts extends MoeSlots {
  /** Whose experts run by matrices. */
  readonly matrices: MatrixRows;
  /** How the inputs of the second half are rounded. */
  readonly rounding: InputRounding;
  /** Sizes of tiles that both halves have forms for. */
  readonly sizes: readonly TileSize[];
  /** Rows of which one launch finds the experts and sorts the pairs; 0 where there is none. */
  readonly mostSorted: number;
  readonly combining: MoeCombining;
  /** Whether rows that a tile has no pairs for cost next to nothing. */
  readonly skips: boolean;
}

/** In which launches slots of rows can be added to the residual stream. */
export interface MoeCombining {
  /** Of pairs that are not sorted, and of sorted ones. */
  readonly byPair: boolean;
  readonly byTile: boolean;
  /** Whether there are tiles of more pairs than the launch over tiles takes at once. */
  readonly stages: boolean;
  /** Whether several invocations add up the same outputs. */
  readonly sharesColumns: boolean;
  /** Whether the weights of the second half may be multiplied by matrices. */
  readonly hasMatrices: boolean;
}

export type MoeLaunch =
  | "score"
  | "choose"
  | "chooseAndSort"
  | "sort"
  | "gateUp"
  | "round"
  | "combineByPair"
  | "combineByTile"
  | "down"
  | "matrixExperts";

/** Pairs of an expert, on average, up to which tiles of few pairs do. */
const MOST_COMBINED = 16;

export function moeLaunches(facts: MoeLaunchFacts): readonly LayerLaunch<MoeLaunch>[] {
  const { matrices, rounding, mostSorted, combining } = facts;
  const score = { name: "score", takes: always } as const;
  if (matrices === "all") {
    return [
      score,
      { name: "choose", takes: always },
      { name: "matrixExperts", takes: ({ rows }) => rows > 0 },
    ];
  }
  const sorts = (step: Step) => tileSize(facts, step) !== undefined;
  const atOnce = (step: Step) =>
    sorts(step) && ownRows(facts, step) === step.rows && step.rows <= mostSorted;
  const runs = (step: Step) => ownRows(facts, step) > 0;
  const list: LayerLaunch<MoeLaunch>[] = [score];
  if (mostSorted > 0) list.push({ name: "chooseAndSort", takes: atOnce });
  list.push(
    { name: "choose", takes: (step) => !atOnce(step) },
    { name: "sort", takes: (step) => sorts(step) && !atOnce(step) },
    { name: "gateUp", takes: runs },
  );
  if (rounding === "apart") list.push({ name: "round", takes: runs });
  const combinesBy = (form: "pair" | "tile") => (step: Step) =>
    runs(step) && combineForm(facts, step) === form;
  if (combining.byPair) list.push({ name: "combineByPair", takes: combinesBy("pair") });
  if (combining.byTile) list.push({ name: "combineByTile", takes: combinesBy("tile") });
  if (!combinesAll(combining)) {
    list.push({ name: "down", takes: (step) => runs(step) && !combines(facts, step) });
  }
  if (matrices === "prompts") {
    list.push({ name: "matrixExperts", takes: (step) => ownRows(facts, step) < step.rows });
  }
  return list;
}

/** On average, in a step of so many rows. */
export function pairsOfExpert({ slots, expertCount }: MoeSlots, rows: number): number {
  return (rows * slots) / expertCount;
}

/** Pairs of an expert, on average, above which sorting pays: tiles that are not full cost too. */
const PAIRS_TO_SORT = 2;
/** The same where they cost what their pairs do. */
const PAIRS_TO_SKIP = 0.8;

/** Sorting pays once an expert serves several rows. */
function isSorted(facts: MoeLaunchFacts, rows: number): boolean {
  return pairsOfExpert(facts, rows) > (facts.skips ? PAIRS_TO_SKIP : PAIRS_TO_SORT);
}

/** The first rows of a step, whose experts do not run by matrices. */
export function ownRows(
  { matrices }: Pick<MoeLaunchFacts, "matrices">,
  { rows, decodeRows }: StepRows,
): number {
  if (matrices === "none") return rows;
  return matrices === "all" ? 0 : decodeRows;
}

/** Pairs of a tile of such a step's own rows; undefined where pairs are not sorted. */
export function tileSize(facts: MoeLaunchFacts, step: StepRows): number | undefined {
  const rows = ownRows(facts, step);
  if (!isSorted(facts, rows)) return undefined;
  if (combines(facts, step)) return facts.sizes[0]!.tokens;
  return formOf(facts.sizes, pairsOfExpert(facts, rows)).tokens;
}

/** Whether in such a step slots are combined and added to the residual stream. */
export function combines(facts: MoeLaunchFacts, step: StepRows): boolean {
  return combineForm(facts, step) !== undefined;
}

/** Whether launches that combine slots are to be bound. */
export function mayCombine(moe: {
  /** Whether the block may add to the residual stream. */
  readonly mayAdd: boolean;
  /** Whether one launch of this rank can have all experts of a row. */
  readonly isWhole: boolean;
  /** Whether inputs are codes. */
  readonly isCoded: boolean;
  readonly matrices: MatrixRows;
}): boolean {
  return moe.mayAdd && moe.isWhole && !moe.isCoded && moe.matrices !== "all";
}

/**
 * Whether there is no step in which slots are combined later. Where invocations share columns, few
 * workgroups have too little to do with all tiles of prompts.
 */
function combinesAll({ byTile, stages, sharesColumns, hasMatrices }: MoeCombining): boolean {
  return byTile && !stages && !sharesColumns && !hasMatrices;
}

/** Whether the second half, where slots are combined later, runs over pairs that are not sorted too. */
export function leavesPairs({ byPair, hasMatrices }: MoeCombining): boolean {
  return !byPair || hasMatrices;
}

function combineForm(facts: MoeLaunchFacts, step: StepRows): "pair" | "tile" | undefined {
  const { byPair, byTile, hasMatrices } = facts.combining;
  const { rows, decodeRows } = step;
  // Matrices want prompt rows scaled, those after experts in f32 too, which they do not multiply.
  if (hasMatrices && decodeRows < rows) return undefined;
  if (!isSorted(facts, rows)) return byPair ? "pair" : undefined;
  if (combinesAll(facts.combining)) return "tile";
  // One workgroup has all tiles of its outputs: with those of prompts there are more to share out.
  const isShort = pairsOfExpert(facts, rows) <= MOST_COMBINED;
  return byTile && decodeRows === rows && isShort ? "tile" : undefined;
}
