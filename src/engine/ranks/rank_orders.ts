/**
 * What the rank that schedules tells the others to do, as plain data. They decide nothing: each
 * computes the same step with its own part of the model.
 *
 * @module
 */
import type { LayerRange } from "../../cache/page_codec.ts";
import type { PageCopy } from "../../cache/page_copier.ts";
import { ownersOf, partOfRank, type SharedLayout, UNSHARED } from "../../cache/page_form.ts";
import type { Batch, BatchSequence } from "../../layers/batch.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import { RankParts } from "../../parallel/parts.ts";
import type {
  LogprobWish,
  RowPenalties,
  RowSampling,
  SampledRow,
  ScoredRow,
} from "../sample/sampled_row.ts";
import type { DraftRequest } from "../step/step_drafts.ts";
import type { WantedTimes } from "../step/step_runner.ts";
import type { ListPart } from "./shared_lists.ts";

/** Rows of a sequence; its page table is one of the lists that both sides have. */
export interface OrderedSequence extends Omit<BatchSequence, "pageTable"> {
  readonly pages: ListPart;
}

/** The tokens that a row's penalties are counted of. */
export interface OrderedHistory {
  readonly tokens: ListPart;
  readonly pending: number;
  readonly promptLength: number;
  readonly forced: number;
}

export interface OrderedPenalties extends Omit<RowPenalties, "history"> {
  readonly history: OrderedHistory;
}

/** A row that a token is sampled from, without what concerns the caller of the engine. */
export interface OrderedRow
  extends Pick<SampledRow, "position" | "mask" | "biases" | "firstChild" | "nextSibling"> {
  readonly sampling: RowSampling;
  readonly penalties: OrderedPenalties | undefined;
  /** Absent where the first of all ranks gathers them itself. */
  readonly logprobs: OrderedWish | undefined;
}

/** What ranks compute in a step. */
export interface OrderedStep {
  readonly batch: Omit<Batch, "sequences"> & { readonly sequences: readonly OrderedSequence[] };
  readonly rows: readonly OrderedRow[];
  /** Histories by their places, and what is pending of them now, where that has changed. */
  readonly pending: readonly (readonly [place: number, pending: number])[];
  /** The prompt rows that are scored. */
  readonly scored: readonly OrderedScore[];
  readonly drafts: DraftRequest | undefined;
}

/** A prompt's row; its log-probabilities are wanted of the first rank of its group alone. */
export interface OrderedScore extends Pick<ScoredRow, "token"> {
  readonly logprobs: OrderedWish | undefined;
}

export type OrderedWish = Omit<LogprobWish, "deliver">;

export interface StepOrder extends OrderedStep {
  readonly type: "step";
  /** Whether its launches and exchanges are measured. */
  readonly isTimed: boolean;
  /** Pages to copy before it. */
  readonly copies: readonly PageCopy[];
  /** What steps have drawn since the last order, in their order: all ranks must have drawn the same. */
  readonly drawn: readonly Uint32Array[];
}

/** A step of attention groups. */
export interface GroupsOrder extends Pick<StepOrder, "isTimed"> {
  readonly type: "step of groups";
  /** Of each group; absent where it is idle. */
  readonly parts: readonly (GroupPart | undefined)[];
}

export interface GroupPart extends OrderedStep, Pick<StepOrder, "copies"> {}

/** Something to do with pages of the cache, by what each rank has of them. */
export type PagesTask = { readonly pages: readonly number[] } & (
  | /** Into the host memory of each rank, under a number. */
  { readonly type: "save"; readonly id: number }
  /** Back from there; `pages` without the first `skip`. */
  | { readonly type: "restore"; readonly id: number; readonly skip: number }
  /** To the first rank, behind what has become of them. */
  | { readonly type: "read"; readonly range: LayerRange | undefined }
  /** From the first rank, parts of so many bytes, before what becomes of them. */
  | { readonly type: "write"; readonly skip: number; readonly length: number }
);

/** Ranks, one behind the other. */
export interface RanksInARow {
  readonly first: number;
  readonly count: number;
}

export type PagesOrder = PagesTask & {
  /** Those that have the pages; the others hear what becomes of them. */
  readonly ranks: RanksInARow;
  /** Pages to copy before it. */
  readonly copies: readonly PageCopy[];
  /** Numbers of what is not wanted any more. */
  readonly released: readonly number[];
};

/**
 * What the pages of ranks are made of, as `ownersOf` has it.
 *
 * @param communicator Of all ranks.
 */
export function pageParts(
  communicator: Communicator,
  { first, count }: RanksInARow,
  { shares = UNSHARED }: SharedLayout,
): RankParts {
  return new RankParts({
    communicator,
    owners: ownersOf(shares).map((rank) => first + rank),
    partOf: (rank) =>
      rank >= first && rank < first + count ? partOfRank(shares, rank - first) : undefined,
    name: "cache pages",
  });
}

/** Experts of a layer change places in front of the next step. */
export interface ExpertsOrder {
  readonly type: "move experts";
  readonly layer: number;
  /** The expert of each slot from then on. */
  readonly after: readonly number[];
}

export type RankOrder =
  | StepOrder
  | GroupsOrder
  /** What the oldest step of groups that was not told of has come to is wanted of each. */
  | { readonly type: "results" }
  | PagesOrder
  | ExpertsOrder
  /** A profile begins: steps may be measured from now on. */
  | { readonly type: "begin times"; readonly wanted: WantedTimes }
  /** What was measured is wanted, and no more of it. */
  | { readonly type: "end times" }
  /** A device is lost: every rank leaves its own for another one, with an empty cache. */
  | { readonly type: "reload" }
  /** The work of the group is done. */
  | { readonly type: "end" };
