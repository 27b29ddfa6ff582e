/**
 * The drafts of steps: what a batch asks for, as launches take it, and what comes back.
 *
 * @module
 */
import { poolStart } from "../../../kernels/speculation/trees/grow_beams.ts";
import { KernelError } from "../../errors.ts";
import type { Batch, DraftedSequence, DraftStep, Step } from "../../layers/batch.ts";
import { DraftInputs, type DraftTensors } from "../../layers/draft_tensors.ts";
import { longestOf } from "../../layers/draft_tree.ts";
import { TreeInputs } from "../../layers/tree_tensors.ts";
import type { SampledRow } from "../sample/sampled_row.ts";
import type { BatchLimits } from "./batch_limits.ts";

/** The drafts that a step is to leave. */
export interface DraftRequest {
  /** Drafts of each sequence that follow each other, from 1 to `maxDrafts`. */
  readonly steps: number;
  /** Sequences that get some, in any order. */
  readonly sequences: readonly DraftedSequence[];
}

/** What fills a step up to a size that its launches are kept for. */
export interface DraftPadding {
  readonly rows: number;
  /** Sequences of a step of that size; a step that is not filled up has none. */
  readonly sequences: number;
}

export class StepDrafts {
  readonly #inputs: DraftInputs;
  readonly #trees: TreeInputs | undefined;
  readonly #limits: BatchLimits;

  /** @param maxPages Of one sequence in the page tables. */
  constructor(
    device: GPUDevice,
    tensors: DraftTensors,
    { maxPages, ...limits }: BatchLimits & { readonly maxPages: number },
  ) {
    const { maxRows, maxSequences, pageSize, contextLength: maxPositions } = limits;
    const sizes = { maxRows, maxSequences, pageSize, maxPositions };
    this.#inputs = new DraftInputs(device, tensors, sizes);
    this.#trees = tensors.trees && new TreeInputs(device, tensors.trees, { ...limits, maxPages });
    this.#limits = limits;
  }

  /**
   * Writes what a step's drafts start from.
   *
   * @param padding Drafted sequences are filled up too, where there is a row of padding for them.
   * @param findsBest Whether the best token can be found without its logits, which no caller wants.
   * @returns Undefined where no row enters the draft module's cache.
   * @throws {KernelError} when the request does not fit the batch.
   */
  prepare(
    batch: Batch,
    request: DraftRequest | undefined,
    {
      sampled,
      padding,
      findsBest,
      passes,
    }: {
      /** How each of the sampled rows of logits is drawn. */
      readonly sampled: readonly SampledRow[];
      readonly padding: DraftPadding;
      readonly findsBest: boolean;
      /** How the network's attention is cut, where the target's is cut in another way. */
      readonly passes?: Step["passes"] | undefined;
    },
  ): DraftStep | undefined {
    const { sequences, sources, logitRows, nextSources } = batch;
    if (nextSources === undefined) {
      if (request === undefined) return undefined;
      throw new KernelError("drafts", "the batch does not say which tokens come next");
    }
    if (nextSources.length !== sources.length) {
      const counts = `${sources.length} rows have ${nextSources.length} next sources`;
      throw new KernelError("drafts", counts);
    }
    this.#inputs.writeSources(nextSources, padding.rows);
    const firstId = logitRows.length + padding.rows;
    const cut = passes && { passes, decodeSplits: this.#splitsOf(longestOf(batch)) };
    if (request === undefined || request.sequences.length === 0) {
      const none = { sequences: 0, steps: 0, nodes: 0, splits: 1, cut, firstId, idCount: 0 };
      return { ...none, draws: false, onlyBest: findsBest };
    }
    const { steps, sequences: drafted } = request;
    this.#check(steps, drafted.length);
    const filled = padding.rows > 0 ? Math.max(padding.sequences, drafted.length) : drafted.length;
    const more = { count: filled - drafted.length, logitRow: logitRows.length };
    const splits = this.#splitsOf(keysOfDrafts(sequences, request));
    const step = { sequences: filled, steps, splits, cut, firstId };
    const { tree } = this.#limits;
    if (tree !== undefined) {
      this.#trees!.write(batch, drafted, more);
      const nodes = Math.min(tree.draftTokens - 1, poolStart(steps, tree.topk));
      return { ...step, nodes, idCount: 2 * nodes * filled, draws: false, onlyBest: false };
    }
    const draws = drafted.map(({ firstLogitRow }) => {
      const { sampling, position } = sampled[firstLogitRow]!;
      return { ...sampling, position };
    });
    const isDrawn = draws.some(({ temperature }) => temperature !== 0);
    this.#inputs.writeEntries(sequences, drafted, more);
    if (isDrawn) this.#inputs.writeDraws(draws, more.count);
    const chosen = { draws: isDrawn, onlyBest: findsBest && !isDrawn };
    return { ...step, nodes: 0, idCount: steps * filled, ...chosen };
  }

  /**
   * Writes which rows go on from the step before.
   *
   * @param before What that step did for drafts.
   * @throws {KernelError} when it did nothing.
   */
  continue(batch: Batch, before: DraftStep | undefined, padding: number): void {
    if (before === undefined) throw new KernelError("drafts", "no step before has made any");
    (this.#trees ?? this.#inputs).writeContinued(batch, before, padding);
  }

  /** Splits of so many keys, of which the context has no more than it is long. */
  #splitsOf(longest: number): number {
    const { shape, draftCut = shape, contextLength } = this.#limits;
    return Math.ceil(Math.min(longest, contextLength) / draftCut.splitLength);
  }

  #check(steps: number, sequences: number): void {
    const { maxDrafts, maxSequences } = this.#limits;
    if (steps < 1 || steps > maxDrafts || sequences > maxSequences) {
      const asked = `${steps} drafts of ${sequences} sequences`;
      throw new KernelError("drafts", `${asked}, of at most ${maxDrafts} and ${maxSequences}`);
    }
  }
}

/** Keys of the longest of the sequences when the last draft is made. */
function keysOfDrafts(
  sequences: Batch["sequences"],
  { steps, sequences: drafted }: DraftRequest,
): number {
  let longest = 1;
  for (const { sequence } of drafted) {
    const { position, queryLength, continues } = sequences[sequence]!;
    const slack = continues?.slack ?? 0;
    // The last draft of a model that starts from the token drawn comes from one position more.
    longest = Math.max(longest, position + slack + queryLength + steps);
  }
  return longest;
}

/** Of each sequence that asked, in order, its drafts; those of a tree are tokens, then parents. */
export function draftsIn(
  ids: Uint32Array,
  { sequences, steps, nodes, firstId }: DraftStep,
  count: number,
): readonly Uint32Array[] {
  if (nodes > 0) {
    const words = 2 * nodes;
    const first = (s: number) => firstId + s * words;
    return Array.from({ length: count }, (_, s) => ids.slice(first(s), first(s) + words));
  }
  return Array.from({ length: count }, (_, s) =>
    Uint32Array.from({ length: steps }, (_, i) => ids[firstId + i * sequences + s]!),
  );
}
