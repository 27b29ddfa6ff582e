/**
 * The trees of drafts that a network makes within a step.
 *
 * As with chains, every row of the step enters the network's cache in a first part. Then the drawn
 * tokens choose a path of each sequence's tree, whose entries are moved together in every layer's
 * cache: what follows sees a sequence as plain decoding has left it. Behind the path's end the network
 * gives the first candidates. In the second part, once for each further step, a sequence has a row for
 * each of its beams, which sees its own path of drafts; the best candidates of all steps are its tree.
 *
 * Where rows enter with their own tokens, none of the first part sees the token that is drawn: that one
 * has a row of its own, which gives the first candidates.
 *
 * @module
 */
import { moveEntries } from "../../../kernels/cache/move_entries.ts";
import { targetIds } from "../../../kernels/embedding/target_ids.ts";
import { acceptTrees } from "../../../kernels/speculation/trees/accept_trees.ts";
import { chooseTree } from "../../../kernels/speculation/trees/choose_tree.ts";
import { growBeams, poolStart } from "../../../kernels/speculation/trees/grow_beams.ts";
import { startTrees } from "../../../kernels/speculation/trees/start_trees.ts";
import { topDrafts } from "../../../kernels/speculation/trees/top_drafts.ts";
import { entryBytes } from "../../cache/kv_cache.ts";
import { InvalidRequestError } from "../../errors.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Step } from "../../layers/batch.ts";
import { mostDrafts } from "../../layers/ranks/group_sizes.ts";
import type { TreeTensors } from "../../layers/tree_tensors.ts";
import type { DraftBinding } from "../model_options.ts";
import { ofEach } from "./draft_network.ts";
import { type Choice, chainSteps, enteringPart, firstDraft } from "./draft_proposal.ts";

const WORD_BYTES = 4;

type RecordStep = (step: Step) => void;

/** Whether a step makes drafts, as a number of times. */
const once = ({ draft }: Step) => ((draft?.steps ?? 0) > 0 ? 1 : 0);

/** Adds the launches of a network whose rows enter with the tokens behind them. */
export function compileTrees(plan: Plan<Step>, choice: Choice, trees: TreeTensors): void {
  const { launches, tensors } = choice;
  const { drafts } = tensors;
  const { topk } = trees;
  const addLogits = bindLogits(plan, choice);
  const beamsOf = ({ draft }: Step) => draft!.sequences * topk;
  plan.within(enteringPart(), () => {
    plan.group("draft layer");
    const compileHidden = launches.compileRows("step");
    plan.within(firstDraft(), () => {
      compileAcceptance(plan, tensors, trees);
      plan.group("draft");
      compileHidden(drafts.lastRows, { readBy: "head" });
      plan.tap("mtp.hidden", drafts.hidden);
      addLogits(ofEach);
      plan.tap("mtp.logits", drafts.logits);
      plan.add(bindCandidates(plan, choice, trees, ofEach));
      // Before rows of beams take the place of the rows that they follow.
      compileHidden(trees.parentRows, { countOf: beamsOf, readBy: "rows behind" });
    });
    const times = (step: Step) => Math.max(mostDrafts(step) - 1, 0);
    plan.within({ times, stepOf: chainSteps(1, topk) }, () => {
      plan.group("draft chain");
      const compileBeams = launches.compileRows("chain");
      compileBeams(drafts.places, { countOf: beamsOf, readBy: "head" });
      addLogits(beamsOf);
      plan.add(bindCandidates(plan, choice, trees, beamsOf));
      compileBeams(trees.parentRows, { countOf: beamsOf, readBy: "rows behind" });
    });
    compileChoice(plan, tensors, trees);
  });
}

/**
 * Adds the trees of a network whose rows have entered with their own tokens: it runs for the token that
 * is drawn behind each path before there are candidates, and takes nothing from row to row. It meets no
 * other rank, and has nothing for drafts of other groups.
 */
export function compileOwnTrees(plan: Plan<Step>, choice: Choice, trees: TreeTensors): void {
  const { launches, tensors } = choice;
  const { topk } = trees;
  const addLogits = bindLogits(plan, choice);
  const compileRows = (countOf: CountRows) => {
    plan.group("draft chain");
    launches.compileRows("chain")(tensors.drafts.places, { countOf });
    addLogits(countOf);
    plan.add(bindCandidates(plan, choice, trees, countOf));
  };
  plan.within({ times: once }, () => {
    compileAcceptance(plan, tensors, trees);
    plan.group("draft");
    plan.add(bindStart(plan, choice, trees));
  });
  plan.within({ times: once, stepOf: chainSteps(0, 1) }, () => compileRows(ofEach));
  const beamsOf = ({ draft }: Step) => draft!.sequences * topk;
  const times = ({ draft }: Step) => Math.max((draft?.steps ?? 0) - 1, 0);
  plan.within({ times, stepOf: chainSteps(1, topk) }, () => compileRows(beamsOf));
  compileChoice(plan, tensors, trees);
}

/** Adds what finds the path of each sequence, and moves its entries together. */
function compileAcceptance(plan: Plan<Step>, tensors: DraftBinding, trees: TreeTensors): void {
  plan.group("draft");
  plan.add(bindAcceptance(plan, tensors, trees));
  plan.within({ times: ({ hasTrees }) => (hasTrees ? 1 : 0) }, () => {
    plan.group("entries of accepted drafts");
    for (const move of bindMoves(plan, tensors, trees)) plan.add(move);
  });
}

function compileChoice(plan: Plan<Step>, tensors: DraftBinding, trees: TreeTensors): void {
  plan.within({ times: once }, () => {
    plan.group("draft");
    plan.add(bindChoice(plan, tensors, trees));
  });
}

/** From the end of each path to the row behind it, of the token that was drawn. */
function bindStart(
  { recorder }: Plan<Step>,
  { tensors, pageSize, maxPositions }: Choice,
  { entries }: TreeTensors,
): RecordStep {
  const { inputs, drafts, padding } = tensors;
  const { pageTables, firstDraftPath: firstPath } = inputs;
  const start = startTrees(recorder, {
    entries,
    pageTables,
    firstPath,
    rows: drafts.rows,
    pageSize,
    maxPositions,
    paddingSlot: padding.slot,
    paddingPage: padding.page,
  });
  return (step) => start(ofEach(step));
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

/** @returns What adds the logits of so many hidden rows, all of a group's in its part of the step. */
function bindLogits(
  plan: Plan<Step>,
  { launches, tensors: { drafts } }: Choice,
): (countOf: CountRows) => void {
  const { recorder } = plan;
  const { head, hiddenStride: xStride } = launches;
  const { hidden: x, logits, logitsStride: stride } = drafts;
  const output = head.into(recorder.device, { x, xStride, logits, stride });
  const { out, outStride } = output;
  const rows = { x: output.x, xStride: output.xStride };
  return (countOf) => {
    output.bring(plan);
    // Bound anew, as one submit may have it for other numbers of rows.
    const multiply = head.linear.bind(recorder, { ...rows, out, outStride, phase: "decode" });
    plan.add((step) => multiply(output.rowsOf(step, countOf(step))));
    output.gather(plan, countOf);
  };
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
  { inputs, drafts: { ends } }: DraftBinding,
  { pool, entries, poolSize, topk }: TreeTensors,
): RecordStep {
  const choose = chooseTree(recorder, { pool, entries, ids: inputs.sampled, ends, poolSize });
  return ({ draft }) => {
    const { sequences, steps, nodes, firstId } = draft!;
    choose(sequences, { candidates: poolStart(steps, topk), nodes, firstId });
  };
}
