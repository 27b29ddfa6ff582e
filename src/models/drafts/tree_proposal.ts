/**
 * The trees of drafts that a network makes within a step.
 *
 * As with chains, every row of the step enters the network's cache in a first part. Then the drawn
 * tokens choose a path of each sequence's tree, whose entries are moved together in every layer's
 * cache: what follows sees a sequence as plain decoding has left it. Behind the path's end the network
 * gives the first candidates. In the second part, once for each further step, a sequence has a row for
 * each of its beams, which sees its own path of drafts; the best candidates of all steps are its tree.
 *
 * @module
 */
import { moveEntries } from "../../../kernels/cache/move_entries.ts";
import { targetIds } from "../../../kernels/embedding/target_ids.ts";
import { acceptTrees } from "../../../kernels/speculation/trees/accept_trees.ts";
import { chooseTree } from "../../../kernels/speculation/trees/choose_tree.ts";
import { growBeams, poolStart } from "../../../kernels/speculation/trees/grow_beams.ts";
import { topDrafts } from "../../../kernels/speculation/trees/top_drafts.ts";
import { entryBytes } from "../../cache/kv_cache.ts";
import { InvalidRequestError, KernelError } from "../../errors.ts";
import type { Plan } from "../../gpu/plan.ts";
import { EMPTY_STEP, type Step } from "../../layers/batch.ts";
import type { TreeTensors } from "../../layers/tree_tensors.ts";
import type { DraftBinding } from "../model_options.ts";
import type { DraftNetwork } from "./draft_network.ts";
import type { Choice, DraftOptions } from "./draft_proposal.ts";

const WORD_BYTES = 4;

type RecordStep = (step: Step) => void;

/**
 * Binds the launches of a network whose rows enter with the tokens behind them.
 *
 * @returns What adds those of its trees, behind the drawing of tokens.
 */
export function bindTrees(
  plan: Plan<Step>,
  network: DraftNetwork,
  options: DraftOptions,
  trees: TreeTensors,
): () => void {
  if (network.enters !== "next tokens") {
    throw new KernelError("draft trees", "rows of the network enter with their own tokens");
  }
  const launches = network.bind(plan, options.target, options.tensors);
  return () => compileTrees(plan, { ...options, launches }, trees);
}

function compileTrees(plan: Plan<Step>, choice: Choice, trees: TreeTensors): void {
  const { launches, tensors } = choice;
  const { drafts } = tensors;
  const { topk } = trees;
  const ofEach = ({ draft }: Step) => draft!.sequences;
  const beamsOf = ({ draft }: Step) => draft!.sequences * topk;
  plan.within({ times: ({ draft }) => (draft === undefined ? 0 : 1) }, () => {
    plan.group("draft layer");
    const compileHidden = launches.compileRows("step");
    plan.within({ times: ({ draft }) => (draft!.steps > 0 ? 1 : 0) }, () => {
      plan.group("draft");
      plan.add(bindAcceptance(plan, tensors, trees));
      plan.within({ times: ({ hasTrees }) => (hasTrees ? 1 : 0) }, () => {
        plan.group("entries of accepted drafts");
        for (const move of bindMoves(plan, tensors, trees)) plan.add(move);
      });
      plan.group("draft");
      compileHidden(drafts.lastRows);
      plan.tap("mtp.hidden", drafts.hidden);
      plan.add(bindHead(plan, choice, ofEach));
      plan.tap("mtp.logits", drafts.logits);
      plan.add(bindCandidates(plan, choice, trees, ofEach));
      // Before rows of beams take the place of the rows that they follow.
      compileHidden(trees.parentRows, beamsOf);
    });
    const stepOf = beamSteps(topk);
    const times = ({ draft }: Step) => Math.max(draft!.steps - 1, 0);
    plan.within({ times, stepOf }, () => {
      plan.group("draft chain");
      const compileBeams = launches.compileRows("chain");
      compileBeams(drafts.places, beamsOf);
      plan.add(bindHead(plan, choice, beamsOf));
      plan.add(bindCandidates(plan, choice, trees, beamsOf));
      compileBeams(trees.parentRows, beamsOf);
    });
    plan.within({ times: ({ draft }) => (draft!.steps > 0 ? 1 : 0) }, () => {
      plan.group("draft");
      plan.add(bindChoice(plan, tensors, trees));
    });
  });
}

function bindAcceptance(
  { recorder }: Plan<Step>,
  { inputs, drafts }: DraftBinding,
  { entries, parents, runs, moves }: TreeTensors,
): RecordStep {
  const { logitRows, rows, sampled } = inputs;
  const read = { parents, logitRows, rows, sampled };
  const { lastRows } = drafts;
  const accept = acceptTrees(recorder, { ...read, entries, lastRows, runs, moves });
  return ({ draft }) => accept(draft!.sequences);
}

/** A launch for each layer that has a cache. */
function bindMoves(
  { recorder }: Plan<Step>,
  { target, cache: own }: DraftBinding,
  { runs, moves }: TreeTensors,
): readonly RecordStep[] {
  return [target, ...(own === undefined ? [] : [own])].flatMap(({ shape, layers }) => {
    const words = entryBytes(shape) / WORD_BYTES;
    return layers.map((cache): RecordStep => {
      const move = moveEntries(recorder, { runs, moves, cache, words });
      // How many move the GPU alone knows: as many as drafts follow each other, at most.
      return ({ draft }) => move(draft!.sequences, draft!.sequences * draft!.steps);
    });
  });
}

type CountRows = (step: Step) => number;

/** Logits of the hidden rows. */
function bindHead(
  { recorder }: Plan<Step>,
  { launches: { head, hiddenStride: xStride }, tensors: { drafts } }: Choice,
  countOf: CountRows,
): RecordStep {
  const { hidden: x, logits: out, logitsStride: outStride } = drafts;
  const multiply = head.bind(recorder, { x, xStride, out, outStride, phase: "decode" });
  return (step) => multiply(countOf(step));
}

/** From logits to candidates, and to the rows of the best of them. */
function bindCandidates(
  { recorder }: Plan<Step>,
  { launches, vocabularySize, pageSize, maxPositions, tensors }: Choice,
  trees: TreeTensors,
  countOf: CountRows,
): RecordStep {
  const { inputs, drafts, padding } = tensors;
  const known = launches.tokens;
  const vocabulary = known?.count ?? vocabularySize;
  const { entries, probabilities, tokens, pool, poolSize, beams, parentRows, topk } = trees;
  const { logits, logitsStride: stride, rows } = drafts;
  requireCandidates(topk, vocabulary);
  const find = topDrafts(recorder, { logits, tokens, probabilities, topk, vocabulary, stride });
  const translate = known && targetIds(recorder, { table: known.targetIds, ids: tokens });
  const grow = growBeams(recorder, {
    entries,
    probabilities,
    tokens,
    pool,
    beams,
    rows,
    parentRows,
    topk,
    poolSize,
    pageSize,
    maxPositions,
    pageTables: inputs.pageTables,
    paddingSlot: padding.slot,
    paddingPage: padding.page,
    firstPath: inputs.firstDraftPath,
  });
  return (step) => {
    const rows = countOf(step);
    find(rows);
    translate?.(rows * topk);
    grow(step.draft!.sequences);
  };
}

/** @throws {InvalidRequestError} when a row is to have more candidates than there are tokens. */
function requireCandidates(topk: number, vocabulary: number): void {
  if (topk <= vocabulary) return;
  throw new InvalidRequestError(
    `Cannot use speculation.eagleTopk ${topk}: what drafts knows ${vocabulary} tokens`,
    "speculation.eagleTopk",
  );
}

function bindChoice(
  { recorder }: Plan<Step>,
  { inputs }: DraftBinding,
  { pool, poolSize, topk }: TreeTensors,
): RecordStep {
  const choose = chooseTree(recorder, { pool, ids: inputs.sampled, poolSize });
  return ({ draft }) => {
    const { sequences, steps, nodes, firstId } = draft!;
    choose(sequences, { candidates: poolStart(steps, topk), nodes, firstId });
  };
}

/** A row of each beam, in the form of generated ones that follow paths. */
function beamSteps(topk: number): (step: Step) => Step {
  const beamStep: Step = { ...EMPTY_STEP };
  return ({ draft }) => {
    const rows = draft!.sequences * topk;
    const sizes = { rows, decodeRows: rows, logitRows: rows };
    const forms = { decodeSplits: draft!.splits, decodesOne: false, hasTrees: true };
    return Object.assign(beamStep, { ...sizes, ...forms, draft });
  };
}
