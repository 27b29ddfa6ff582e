/**
 * The layers of a decoder for two micro-batches: each has rows of its own, and where it meets other
 * ranks is its own; weights, the cache and what is done with between two exchanges are shared.
 *
 * @module
 */
import type { Plan } from "../../gpu/plan.ts";
import type { Step } from "../../layers/batch.ts";
import { always } from "../../layers/launches/launch_list.ts";
import {
  compileSecondRows,
  copySecond,
  type MicroBatchTensors,
  secondRows,
} from "../../layers/micro_batches.ts";
import { RankSums } from "../../layers/ranks/rank_sums.ts";
import { attentionRanks } from "../../parallel/communicator.ts";
import type { ExchangeTurns } from "../../parallel/exchange_turns.ts";
import {
  bindShared,
  compileEmbedding,
  compileLayers,
  type DecoderStack,
  type LayerBlocks,
  type StackPlace,
} from "../decoder_layer.ts";
import { allocateRows, compileNorm, type DecoderRows, type Pending } from "../decoder_rows.ts";
import type { Captures, ModelOptions } from "../model_options.ts";

const FLOAT_BYTES = 4;

/** Of steps that are cut, and of the others. */
export interface MicroBatchStack extends Omit<StackPlace, "tapped" | "beforeLayer"> {
  readonly microBatches: MicroBatchTensors;
  /** Which of the two exchanges; the first has its ends already. */
  readonly turns: ExchangeTurns;
  readonly captures: Captures | undefined;
  /** Keeps rows in front of a layer where these captures say. */
  capture(rows: DecoderRows, captures: Captures | undefined, index: number): void;
}

/**
 * Adds what `compileStack` does, cut in two in steps that are: what the second does goes on while the
 * first waits for other ranks.
 *
 * @param blocks Of the first micro-batch, and of steps that are not cut.
 */
export function compileMicroBatches(
  plan: Plan<Step>,
  options: ModelOptions,
  blocks: LayerBlocks,
  stack: DecoderStack,
  at: MicroBatchStack,
): Pending {
  const { inputs, microBatches, turns } = at;
  const second = secondBlocks(plan, options, blocks, turns);
  const captures = at.captures && ownCaptures(options, at.captures);
  compileEmbedding(plan, blocks, stack, at);
  compileSecondRows(plan, inputs, microBatches[1]);
  const rows = {
    whole: blocks.rows.hidden,
    second: second.rows.hidden,
    rowBytes: blocks.rows.hiddenStride * FLOAT_BYTES,
  };
  plan.addVarying((step) => copySecond(plan.recorder, step, rows, "taken"));
  const build = (which: 0 | 1, own: LayerBlocks, kept: Captures | undefined) => () => {
    const pending = compileLayers(plan, own, stack, {
      ...at,
      inputs: microBatches[which],
      beforeLayer: (index) => at.capture(own.rows, kept, index),
    });
    // For what it adds: what it norms is not read.
    const { shape, forms } = own;
    compileNorm(plan, shape, { rows: own.rows, weight: stack.norm, pending, forms });
  };
  plan.sideBySide(
    [
      {
        stepOf: (step) => step.microBatches?.[0] ?? step,
        arraysOf: ({ place }) => place?.arrays,
        build: build(0, blocks, at.captures),
      },
      {
        stepOf: (step) => step.microBatches?.[1],
        arraysOf: ({ place }) => place?.arrays,
        build: build(1, second, captures),
      },
    ],
    turns,
  );
  plan.addVarying((step) => {
    copySecond(plan.recorder, step, rows, "returned");
    if (at.captures === undefined || captures === undefined || step.draft === undefined) return;
    const rowBytes = captures.stride * FLOAT_BYTES;
    const kept = { whole: at.captures.out, second: captures.out, rowBytes };
    copySecond(plan.recorder, step, kept, "returned");
  });
  return { addend: undefined, isAdded: always, leavesNorm: true };
}

/** Captures of the second micro-batch. */
function ownCaptures({ memory, maxRows }: ModelOptions, { layers, stride }: Captures): Captures {
  const bytes = secondRows(maxRows) * stride * FLOAT_BYTES;
  return { layers, stride, out: memory.allocate("activations", bytes, "captures") };
}

/** What the second micro-batch's layers work in, of which attention's is the first's. */
function secondBlocks(
  plan: Plan<Step>,
  given: ModelOptions,
  { shape, forms, rows: firstRows, attend, dense }: LayerBlocks,
  turns: ExchangeTurns,
): LayerBlocks {
  const { device } = plan.recorder;
  const { memory } = given;
  const maxRows = secondRows(given.maxRows);
  const communicator = turns.end(1, given.communicator);
  const options = { ...given, maxRows, communicator };
  const { hiddenStride: stride, rounding } = firstRows;
  const meeting = { device, memory, communicator: attentionRanks(communicator), maxRows, stride };
  const sums = meeting.communicator.size === 1 ? undefined : new RankSums(meeting);
  const rows = { ...allocateRows(memory, shape, { maxRows, stride, rounding, forms }), sums };
  const { moe, ...shared } = bindShared(options, { shape, forms, rows, device });
  return {
    ...shared,
    attend: (own, layer, residual, inputs) => attend(own, layer, residual, inputs, rows),
    dense: { ...dense, ...rows },
    moe: moe && { ...moe, microBatch: 1 },
  };
}
