/**
 * What one forward pass sees: rows of several sequences, as plain data.
 *
 * A row is one token's vector. Rows of generated tokens (decode, verify) come first, rows of
 * prompts (prefill) after them: the two run different forms of attention. Zero rows are legal: the
 * plan then performs its exchanges only.
 *
 * @module
 */

import type { StepArrays } from "../gpu/launch_cost.ts";

/** Which form of attention a sequence's rows run. */
export type Phase = "prefill" | "decode" | "verify";

/** Page numbers in the order of their tokens. It may grow; where anything else changes it is another. */
export type PageTable = readonly number[];

/** What is drafted behind a sequence's newest token (draft_tree.ts). */
export interface DraftTree {
  /**
   * The parent of each node, -1 for node 0, else a lower number: parents come before their children.
   * `MAX_TREE_NODES` at most, none deeper than `MAX_TREE_DEPTH`.
   */
  readonly parents: readonly number[];
}

/** An image of a sequence whose positions have parts: its rows lie in rows and columns. */
export interface PlacedImage {
  /** Number of its first row, and behind its last one. */
  readonly start: number;
  readonly end: number;
  readonly columns: number;
  /** Where its first row stands, and by how much what is behind it stands apart from its number. */
  readonly place: number;
  readonly delta: number;
}

/** Where rows stand, of such a sequence: its images in their order. */
export type RopePlaces = readonly PlacedImage[];

export interface BatchSequence {
  readonly phase: Phase;
  /** First of its rows in the batch. */
  readonly queryStart: number;
  /**
   * Its rows: any number of a prompt; several generated ones where they are computed again, or
   * verified: those may share the reads of attention (see row_groups.ts).
   */
  readonly queryLength: number;
  /** Position of its first row; row i stands at `position + i`, node i of a tree at its depth instead. */
  readonly position: number;
  /** Page numbers of its tokens, at least up to its last row. */
  readonly pageTable: PageTable;
  /**
   * Where it goes on from the step before, of which the host does not know yet how many drafts were
   * right: the GPU finds its rows' tokens and positions.
   */
  readonly continues?: Continuation | undefined;
  /**
   * The tree whose nodes its rows are, of a sequence that is not a prompt's: each row sees the keys of
   * its own path. For plans that are made with trees.
   */
  readonly tree?: DraftTree | undefined;
  /** For models whose positions have parts. Default: all parts of a position are its number. */
  readonly places?: RopePlaces | undefined;
}

/** Of a sequence whose first row stands at the token drawn last, and the others at the drafts behind. */
export interface Continuation {
  /** Its number among the sequences that the step before has drafted for. */
  readonly from: number;
  /** Positions that its rows may stand further than the host knows. */
  readonly slack: number;
  /**
   * Where its rows are nodes of a tree that the step before has chosen: how deep that is at most. Node n
   * has place `position + n`, wherever the sequence stands. Default: they follow each other.
   */
  readonly depth?: number | undefined;
}

export interface Batch {
  readonly sequences: readonly BatchSequence[];
  /**
   * Per row: a token id; `FROM_SAMPLED | i` for the i-th id sampled in the previous step, which
   * need not have reached the host; `FROM_EXTERNAL | i` for row i of `external` (kernels/embedding).
   */
  readonly sources: Uint32Array<ArrayBuffer>;
  /** Embeddings made elsewhere, each of `hiddenSize` numbers. */
  readonly external?: readonly Float32Array[];
  /** Rows whose logits are wanted, ascending. */
  readonly logitRows: Uint32Array<ArrayBuffer>;
  /**
   * Per row the source of the token behind it, as in `sources`, but `FROM_SAMPLED | i` is the i-th id
   * that this step samples. Without them a draft module's cache gets no entries of the rows.
   */
  readonly nextSources?: Uint32Array<ArrayBuffer>;
}

/** A sequence of a batch that is to get drafts. */
export interface DraftedSequence {
  /** Its number in the batch. */
  readonly sequence: number;
  /**
   * Its sampled rows among `logitRows`, one behind the other: that of its newest token, and those of
   * the drafts that are verified, whose sources are token ids; the nodes of its tree in their order.
   */
  readonly firstLogitRow: number;
  readonly logitRows: number;
}

/** What a step does for drafts. */
export interface DraftStep {
  /** Sequences that get drafts, rows of padding among them. */
  readonly sequences: number;
  /**
   * Drafts of each that follow each other; 0 where rows only enter the draft module's cache, and no
   * sequence gets drafts.
   */
  readonly steps: number;
  /** Drafts of each in a tree, which have a token and a parent; 0 where they are chains. */
  readonly nodes: number;
  /** Splits of the longest of them. */
  readonly splits: number;
  /** How the network's attention is cut over the step's rows, where it is in another way than the target's. */
  readonly cut?: Pick<Step, "passes" | "decodeSplits"> | undefined;
  /** Where drafts stand among the ids that the step leaves, and how many words they are. */
  readonly firstId: number;
  readonly idCount: number;
  /** Whether some are drawn by a temperature; else all are the best tokens. */
  readonly draws: boolean;
  /** Whether of their logits only the best is wanted. */
  readonly onlyBest: boolean;
}

/** What one of several attention groups has of a step, or of the part of it that is computed now. */
export interface GroupSizes {
  readonly rows: number;
  /** Of them those of generated tokens, which come first. */
  readonly decodeRows: number;
  /** Of them those of the first micro-batch: all where its batch is not cut. */
  readonly firstRows: number;
  readonly logitRows: number;
  /** Whether its rows enter a draft module's cache. */
  readonly enters: boolean;
  /** Sequences that get drafts, and how many each of them gets. */
  readonly sequences: number;
  readonly steps: number;
}

/** The sizes of a batch that a plan's launches need: one object, changed from step to step. */
export interface Step {
  rows: number;
  /** Rows `[0, decodeRows)` run the form for generated tokens, the others that for prompts. */
  decodeRows: number;
  /** Splits of the longest sequence among the decode rows. */
  decodeSplits: number;
  /** Groups of decode rows that share reads (see row_groups.ts); 0 where each reads for itself. */
  decodeGroups: number;
  /** Whether no sequence has several decode rows, of which one would see the keys of others. */
  decodesOne: boolean;
  /** Whether decode rows follow paths: a sequence of the batch has a draft tree. */
  hasTrees: boolean;
  /** Whether a sequence goes on from the step before, as only the GPU knows. */
  continues: boolean;
  /** Passes over the cache that the prompt rows need (see prefill_passes.ts). */
  passes: readonly PrefillPass[];
  logitRows: number;
  /** Whether of the logits only the best of each row is wanted, where a plan can leave out the others. */
  onlyBest: boolean;
  /** Absent where no row enters a draft module's cache. */
  draft: DraftStep | undefined;
  /** What each attention group has; absent where there is one. */
  groups: readonly GroupSizes[] | undefined;
  /** The two micro-batches that its layers compute side by side; absent where it is one. */
  microBatches: MicroBatchSteps | undefined;
  /** Of a micro-batch: where its rows are; absent of a whole step. */
  place: MicroBatchPlace | undefined;
}

export type MicroBatchSteps = readonly [Step, Step];

/** Which rows of a step a micro-batch has. */
export interface MicroBatchPlace {
  /** Number of its first row among those of the step. */
  first: number;
  /** Rows of the step. */
  all: number;
  /** What kernels are told of the launches for its rows, where these are timed. */
  arrays: StepArrays | undefined;
}

/** A step without rows. */
export const EMPTY_STEP: Readonly<Step> = {
  rows: 0,
  decodeRows: 0,
  decodeSplits: 1,
  decodeGroups: 0,
  decodesOne: true,
  hasTrees: false,
  continues: false,
  passes: [],
  logitRows: 0,
  onlyBest: false,
  draft: undefined,
  groups: undefined,
  microBatches: undefined,
  place: undefined,
};

export type StepRows = Pick<Step, "rows" | "decodeRows">;

/** One pass of prompt attention over a workspace full of keys. */
export interface PrefillPass {
  /** Keys in the workspace. */
  keys: number;
  /** First of its work items, and how many. */
  firstItem: number;
  items: number;
}
