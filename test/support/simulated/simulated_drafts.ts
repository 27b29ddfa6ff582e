/**
 * A draft module that is played: it drafts what the model goes on with, with faults, and looks at what
 * its rows know of the tokens behind them.
 *
 * @module
 */
import { FROM_SAMPLED } from "../../../kernels/embedding/embedding.ts";
import type { ScheduledStep } from "../../../src/engine/schedule/scheduled_step.ts";
import type { Sequence } from "../../../src/engine/schedule/sequence.ts";
import type { BatchSequence } from "../../../src/layers/batch.ts";
import type { DraftTreeSizes } from "../../../src/layers/tree_tensors.ts";
import { acceptedPath, chainParents } from "../../../src/speculation/draft_nodes.ts";
import { draftsOf, type PlayedText, treeOf } from "./simulated_model.ts";

/** The rows of a sequence, where they really stand. */
export interface Place extends BatchSequence {
  readonly owner: Sequence;
  /** Tokens that it has computed then. */
  readonly computed: number;
  /** What the rows behind them verify. */
  readonly drafted: readonly number[];
}

/** What became of a sequence's drafts. */
export interface Accepted {
  readonly place: Place;
  /** Those of its rows that are its tokens, in order, and what they have sampled. */
  readonly rows: readonly number[];
  readonly drawn: readonly number[];
}

/** @param ids What a step's rows have sampled. */
export function acceptedOf(
  sampled: readonly Sequence[],
  ids: Uint32Array,
  places: readonly Place[],
): readonly Accepted[] {
  const byOwner = new Map(places.map((place) => [place.owner, place]));
  const all: Accepted[] = [];
  for (let row = 0; row < sampled.length; ) {
    const place = byOwner.get(sampled[row]!)!;
    const { drafted, tree } = place;
    const own = ids.subarray(row, row + 1 + drafted.length);
    const parents = tree?.parents.slice(1) ?? chainParents(drafted.length);
    const rows = acceptedPath({ tokens: drafted, parents }, own);
    all.push({ place, rows, drawn: rows.map((one) => own[one]!) });
    row += own.length;
  }
  return all;
}

/**
 * What the GPU knows of a step's sequences.
 *
 * @param made What the step before has drafted.
 * @param tokensOf Those of a sequence, those included that the host does not know yet.
 * @throws {Error} when the host has taken one to stand elsewhere.
 */
export function placesOf(
  { batch, progress, drafts }: ScheduledStep,
  made: readonly Uint32Array[],
  tokensOf: (sequence: Sequence) => readonly number[],
): readonly Place[] {
  return batch.sequences.map((one, i) => {
    const { sequence: owner, computed } = progress[i]!;
    const { continues, position: least, queryLength } = one;
    if (continues === undefined) {
      return { ...one, owner, computed, drafted: drafts.get(owner) ?? [] };
    }
    const position = tokensOf(owner).length - 1;
    const isThere = position >= least && position <= least + continues.slack;
    if (!isThere) throw new Error("a row stands elsewhere");
    const all = [...made[continues.from]!];
    const drafted = all.slice(0, queryLength - 1);
    const where = { owner, position, computed: position + 1, drafted };
    if (continues.depth === undefined) return { ...one, ...where };
    const parents = all.slice(all.length / 2).slice(0, drafted.length);
    return { ...one, ...where, tree: { parents: [-1, ...parents] } };
  });
}

/**
 * @param results `ids`: what the step has sampled; `tokensOf`: those of a sequence, these included.
 * @returns The drafts of each sequence that asked.
 * @throws {Error} when a row takes another token for the one behind it.
 */
export function draftStep(
  { batch: { nextSources }, draftRequest }: ScheduledStep,
  places: readonly Place[],
  {
    ids,
    accepted,
    tokensOf,
    textOf,
    tree,
    wrong,
  }: {
    readonly ids: Uint32Array;
    readonly accepted: readonly Accepted[];
    readonly tokensOf: (sequence: Sequence) => readonly number[];
    /** The same as texts. */
    readonly textOf: (sequence: Sequence) => PlayedText;
    /** Of drafts that are trees. */
    readonly tree: DraftTreeSizes | undefined;
    /** One draft in so many is wrong. */
    readonly wrong: number | undefined;
  },
): Uint32Array[] {
  for (const place of places) {
    const { owner, queryStart, queryLength, position } = place;
    const tokens = tokensOf(owner);
    const rows =
      place.tree === undefined
        ? chainParents(queryLength)
        : accepted.find((one) => one.place === place)!.rows;
    if (place.tree !== undefined && draftRequest?.owners.includes(owner) !== true) {
      throw new Error("entries of a tree are not moved");
    }
    for (let j = 0; nextSources !== undefined && j < rows.length; j++) {
      // Behind the first draft that is wrong there is nothing to know.
      if (position + j + 1 >= tokens.length || owner.finish !== null) break;
      const source = nextSources[queryStart + rows[j]!]!;
      const next = source < FROM_SAMPLED ? source : ids[source - FROM_SAMPLED];
      if (next !== tokens[position + j + 1]) throw new Error("a row has another token behind it");
    }
  }
  const { owners = [], steps = 0 } = draftRequest ?? {};
  if (tree !== undefined)
    return owners.map((owner) => Uint32Array.from(treeOf(textOf(owner), tree)));
  return owners.map((owner) => {
    const drafts = draftsOf(textOf(owner), steps, wrong);
    return Uint32Array.from({ length: steps }, (_, i) => drafts[i] ?? 2);
  });
}
