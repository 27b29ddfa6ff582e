/**
 * How many rows of each sequence the next step computes.
 *
 * @module
 */
import type { DraftWork } from "../drafts/draft_work.ts";
import type { Chunk } from "./scheduled_step.ts";
import type { SchedulerOptions } from "./scheduler_options.ts";
import { ScoringRoom } from "./scoring_room.ts";
import type { Sequence } from "./sequence.ts";
import type { SequencePages } from "./sequence_pages.ts";

/** Makes room for a sequence's first `tokens` tokens; whether there was some. May end the sequence. */
type Grow = (sequence: Sequence, tokens: number) => boolean;

export interface GeneratedChunksOptions extends Pick<SchedulerOptions, "contextLength" | "tree"> {
  readonly grow: Grow;
  /** Of drafts that are known here, how many of a sequence are verified. Default: all. */
  readonly limits?: ReadonlyMap<Sequence, number> | undefined;
}

/**
 * One row of each sequence that decodes, and rows of its drafts; of one that is computed again as
 * many as there is room for.
 *
 * @param ready They have pages for one row more, wherever steps in flight leave it.
 * @param most Rows of all of them.
 */
export function generatedChunks(
  ready: readonly Sequence[],
  most: number,
  { grow, limits, tree, contextLength = Number.POSITIVE_INFINITY }: GeneratedChunksOptions,
): Chunk[] {
  let room = most - ready.length;
  const chunks = ready.map((sequence): Chunk => {
    const missing = sequence.length - sequence.computed - 1;
    const { drafting } = sequence;
    const isContinued = sequence.pending > 0 && drafting?.continues === true;
    const drafts = isContinued
      ? new Array<number>(drafting.coming).fill(0)
      : sequence.drafts.slice(0, limits?.get(sequence));
    const parents = isContinued ? undefined : drafting?.parents;
    const end = computedAtMost(sequence) + 1;
    let left = contextLength - end;
    // Nodes of one depth have entries of their own, which may lie behind the context.
    if (missing <= 0 && parents !== undefined) left = drafts.length;
    else if (isContinued && tree !== undefined) left = left < tree.steps ? 0 : drafts.length;
    const more = Math.min(missing > 0 ? missing : drafts.length, room, left);
    if (more <= 0 || !grow(sequence, end + more)) return { sequence, rows: 1, isContinued };
    room -= more;
    if (missing > 0) return { sequence, rows: 1 + more };
    const given = { drafts: drafts.slice(0, more), parents: parents?.slice(0, more) };
    return { sequence, rows: 1, ...given, isContinued };
  });
  return chunks.filter(({ sequence }) => sequence.finish === null);
}

export interface PromptChunksOptions
  extends Pick<SchedulerOptions, "maxPrefillTokens" | "maxPrefillKeys" | "maxScoredRows"> {
  readonly pages: SequencePages;
  readonly grow: Grow;
}

/**
 * Rows of prompts, one sequence after another.
 *
 * @param room Rows of the step that are left for them.
 */
export function promptChunks(
  running: readonly Sequence[],
  room: number,
  { maxPrefillTokens, maxPrefillKeys, maxScoredRows, pages, grow }: PromptChunksOptions,
): Chunk[] {
  const chunks: Chunk[] = [];
  let left = room;
  let keys = 0;
  let total = 0;
  const scoring = new ScoringRoom(maxScoredRows);
  for (const sequence of running) {
    const { computed, promptLength } = sequence;
    if (computed >= promptLength) continue;
    const fits = pages.roomFor(sequence) - computed;
    // The last row of a prompt samples.
    const missing = promptLength - computed - (sequence.isPrepared ? 0 : 1);
    if (missing === 0) continue;
    const rows = scoring.take(sequence, Math.min(missing, left, fits));
    keys += computed + rows;
    if (rows <= 0 || keys > maxPrefillKeys) break;
    if (chunks.length > 0 && total + rows > maxPrefillTokens) break;
    if (!grow(sequence, computed + rows)) break;
    if (sequence.finish !== null) continue;
    chunks.push({ sequence, rows });
    left -= rows;
    total += rows;
  }
  return chunks;
}

const slackOf = ({ drafting }: Sequence) => drafting?.slack ?? 0;

/** Tokens that it may have computed once the steps in flight have run. */
export const computedAtMost = (sequence: Sequence): number => sequence.computed + slackOf(sequence);

/** Whether a next row of generated tokens can be computed for it, steps in flight considered. */
export function isReady(
  sequence: Sequence,
  contextLength: number = Number.POSITIVE_INFINITY,
): boolean {
  return (
    sequence.computed >= sequence.promptLength &&
    sequence.computed < sequence.length &&
    computedAtMost(sequence) < contextLength &&
    (sequence.pending === 0 ? sequence.isPrepared : sequence.runsAhead)
  );
}

/** Makes room for what drafts leave in the cache; without it they are of no use, and do no harm. */
export function growForDrafts(
  chunks: readonly Chunk[],
  pages: SequencePages,
  work: DraftWork,
  {
    tree,
    contextLength = Number.POSITIVE_INFINITY,
  }: Pick<SchedulerOptions, "tree" | "contextLength">,
): void {
  if (work.steps === 0) return;
  for (const { sequence, rows, drafts = [] } of chunks) {
    const computed = sequence.computed + rows;
    if (computed < sequence.length || !sequence.wantsDrafts) continue;
    if (work.countOf(sequence) === 0) continue;
    if (tree !== undefined) {
      // Of one depth all beams have entries, behind the deepest path that may be accepted, and behind
      // the token drawn there where a model's first candidates come from it.
      const depth = Math.min(drafts.length, tree.steps);
      const end = computed + slackOf(sequence) + depth + 1 + tree.topk * (work.steps - 1);
      growIfFree(pages, sequence, Math.min(end, contextLength));
      continue;
    }
    const end = computed + slackOf(sequence) + drafts.length + work.steps;
    growIfFree(pages, sequence, Math.min(end, sequence.mostTokens, contextLength));
  }
}

/** Where pages are free, that no prefix has to leave, and there is memory of the host to note them. */
function growIfFree(pages: SequencePages, sequence: Sequence, tokens: number): void {
  const { pool } = pages;
  if (pool.pagesFor(tokens) - sequence.pageTable.length > pool.freeCount) return;
  try {
    pages.grow(sequence, tokens);
  } catch (error) {
    if (!(error instanceof RangeError)) throw error;
  }
}
