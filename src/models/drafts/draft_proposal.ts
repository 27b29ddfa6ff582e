/**
 * The drafts that a network makes within a step.
 *
 * A step has two parts of it. In the first every row enters the network's cache, with the token that
 * the step itself has drawn where that is the next one; the last accepted row of each sequence gives
 * its first draft. In the second, once for each further draft, a row of each sequence is the
 * network's own: the draft, and its output instead of a hidden state of the target.
 *
 * Where rows enter with their own tokens, no row of the first part sees the token that is drawn: the
 * second part starts from that one, and is there once for every draft.
 *
 * @module
 */

import { targetIds } from "../../../kernels/embedding/target_ids.ts";
import { argmax } from "../../../kernels/sampling/argmax.ts";
import { sample } from "../../../kernels/sampling/sample.ts";
import { acceptRows } from "../../../kernels/speculation/accept_rows.ts";
import { advanceRows } from "../../../kernels/speculation/advance_rows.ts";
import { startRows } from "../../../kernels/speculation/start_rows.ts";
import type { Plan, RepeatedPart } from "../../gpu/plan.ts";
import { type DraftStep, EMPTY_STEP, type Step } from "../../layers/batch.ts";
import { draftingGroups, enteringGroups, mostDrafts } from "../../layers/ranks/group_sizes.ts";
import type { DraftBinding } from "../model_options.ts";
import type { DraftLaunches, DraftTarget } from "./draft_network.ts";

/** What a proposal has besides a network's launches and tensors. */
export interface ProposalOptions {
  readonly vocabularySize: number;
  readonly pageSize: number;
  /** Of a sequence. */
  readonly maxPositions: number;
}

export interface DraftOptions extends ProposalOptions {
  readonly target: DraftTarget;
  readonly tensors: DraftBinding;
}

/** What is chosen from, and how. */
export interface Choice extends DraftOptions {
  readonly launches: DraftLaunches;
}

/** Of a group none of whose rows enters, beside one that has some. */
const NO_DRAFTS: DraftStep = {
  sequences: 0,
  steps: 0,
  nodes: 0,
  splits: 1,
  firstId: 0,
  idCount: 0,
  draws: false,
  onlyBest: false,
};

/** The rows of a step that enter the network's cache, with its attention cut as the network's is. */
export function enteringPart(): RepeatedPart<Step> {
  const own: Step = { ...EMPTY_STEP };
  return {
    times: ({ draft, groups }) =>
      draft !== undefined || groups?.some(({ enters }) => enters) === true ? 1 : 0,
    stepOf: (step) => {
      const { draft, groups } = step;
      if (draft !== undefined) Object.assign(own, step, draft.cut);
      else Object.assign(own, EMPTY_STEP, { draft: NO_DRAFTS });
      own.groups = groups && enteringGroups(groups);
      return own;
    },
  };
}

/** What makes the first draft of each sequence, behind the rows that have entered. */
export function firstDraft(): RepeatedPart<Step> {
  const own: Step = { ...EMPTY_STEP };
  return {
    times: (step) => (mostDrafts(step) > 0 ? 1 : 0),
    stepOf: (step) => {
      if (step.groups === undefined) return step;
      return Object.assign(own, step, { groups: draftingGroups(step.groups, 0) });
    },
  };
}

/** Adds the launches of a network whose rows enter with the tokens behind them. */
export function compileProposal(plan: Plan<Step>, choice: Choice): void {
  const { launches, tensors } = choice;
  const { drafts } = tensors;
  const propose = bindProposal(plan, choice);
  const stepOf = chainSteps(1);
  plan.within(enteringPart(), () => {
    plan.group("draft layer");
    const compileHidden = launches.compileRows("step");
    plan.within(firstDraft(), () => {
      plan.group("draft");
      plan.add(bindAcceptance(plan, tensors));
      compileHidden(drafts.lastRows);
      plan.tap("mtp.hidden", drafts.hidden);
      propose();
      plan.tap("mtp.logits", drafts.logits);
    });
    plan.within({ times: (step) => Math.max(mostDrafts(step) - 1, 0), stepOf }, () => {
      plan.group("draft chain");
      launches.compileRows("chain")(drafts.places);
      propose();
    });
  });
}

/**
 * Adds the drafts of a network whose rows have entered: the first comes from the token that is drawn. It
 * meets no other rank, and has nothing for drafts of other groups.
 */
export function compileChain(plan: Plan<Step>, choice: Choice): void {
  const { launches, tensors } = choice;
  const propose = bindProposal(plan, choice);
  const stepsOf = ({ draft }: Step) => draft?.steps ?? 0;
  plan.within({ times: (step) => (stepsOf(step) > 0 ? 1 : 0) }, () => {
    plan.group("draft");
    plan.add(bindAcceptance(plan, tensors));
    plan.add(bindStart(plan, choice));
  });
  plan.within({ times: stepsOf, stepOf: chainSteps(0) }, () => {
    plan.group("draft chain");
    launches.compileRows("chain")(tensors.drafts.places);
    propose();
  });
}

/** From the last accepted row of each sequence to the one behind it, of the token that was drawn. */
function bindStart({ recorder }: Plan<Step>, { tensors, pageSize }: Choice): (step: Step) => void {
  const { inputs, drafts, padding } = tensors;
  const { entries, ends, rows } = drafts;
  const start = startRows(recorder, {
    entries,
    ends,
    rows,
    pageTables: inputs.pageTables,
    pageSize,
    paddingSlot: padding.slot,
    paddingPage: padding.page,
  });
  return ({ draft }) => start(draft!.sequences);
}

function bindAcceptance(
  { recorder }: Plan<Step>,
  { inputs, drafts }: DraftBinding,
): (step: Step) => void {
  const { entries, lastRows, rows: nextRows, ends, draws } = drafts;
  const { logitRows, rows, sampled } = inputs;
  const read = { entries, logitRows, rows, sampled };
  const accept = acceptRows(recorder, { ...read, lastRows, nextRows, ends, draws });
  return ({ draft }) => accept(draft!.sequences);
}

/**
 * From hidden rows to drafts, and to the rows behind them.
 *
 * @returns What adds it: the same launches in both parts.
 */
function bindProposal(plan: Plan<Step>, choice: Choice): () => void {
  const { recorder } = plan;
  const { launches, pageSize } = choice;
  const { head, hiddenStride: xStride, findsBest, tokens } = launches;
  const vocabulary = tokens?.count ?? choice.vocabularySize;
  const { inputs, drafts, padding } = choice.tensors;
  const { hidden: x, logits, logitsStride: stride, best: ids, entries, ends, draws } = drafts;
  const input = { x, xStride };
  const output = head.into(recorder.device, { ...input, logits, stride });
  const { out, outStride } = output;
  const rows = { x: output.x, xStride: output.xStride };
  const multiply = head.linear.bind(recorder, { ...rows, out, outStride, phase: "decode" });
  const draw = sample(recorder, { logits, stride, vocabulary, ids, draws });
  const choose = argmax(recorder, { logits, stride, vocabulary, ids });
  const find =
    findsBest && head.isWhole
      ? head.linear.bindBest(recorder, { ...input, work: logits, workStride: stride, ids })
      : undefined;
  const translate = tokens && targetIds(recorder, { table: tokens.targetIds, ids });
  const advance = advanceRows(recorder, {
    entries,
    best: ids,
    rows: drafts.rows,
    ends,
    draws,
    pageTables: inputs.pageTables,
    ids: inputs.sampled,
    pageSize,
    paddingSlot: padding.slot,
    paddingPage: padding.page,
  });
  const finds = ({ draft }: Step) => draft!.onlyBest && find !== undefined;
  return () => {
    output.bring(plan);
    plan.add((step) => {
      const { sequences } = step.draft!;
      if (finds(step)) find!(sequences);
      else multiply(output.rowsOf(step, sequences));
    });
    output.gather(plan, ({ draft }) => draft!.sequences);
    plan.add((step) => {
      const { sequences, firstId, draws: isDrawn } = step.draft!;
      if (!finds(step)) (isDrawn ? draw : choose)(sequences);
      translate?.(sequences);
      advance(sequences, firstId);
    });
  };
}

/**
 * A row of each sequence, in the form of generated ones; none in a group that has made its drafts.
 *
 * @param made Drafts in front of the first of them.
 * @param beams Rows of each sequence instead, where they follow paths.
 */
export function chainSteps(made: number, beams?: number): (step: Step, time: number) => Step {
  const chainStep: Step = { ...EMPTY_STEP };
  const forms = beams === undefined ? {} : { decodesOne: false, hasTrees: true };
  return ({ draft, groups }, time) => {
    const n = made + time;
    const isMade = draft!.steps <= n;
    const rows = isMade ? 0 : draft!.sequences * (beams ?? 1);
    const sizes = { rows, decodeRows: rows, logitRows: rows };
    return Object.assign(chainStep, sizes, forms, {
      decodeSplits: draft!.splits,
      draft: isMade ? NO_DRAFTS : draft,
      groups: groups && draftingGroups(groups, n, beams),
    });
  };
}
