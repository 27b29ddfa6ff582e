/**
 * What a record of experts says of one step: how many rows went to each slot, or where each row went.
 *
 * @module
 */
import type { ExpertPassRecord, ExpertRecorderMode, RecordedRows } from "../../expert_record.ts";
import type { Batch } from "../../layers/batch.ts";
import type { StepChoices } from "../../layers/moe/expert_choices.ts";
import type { ExpertLayout } from "../../parallel/experts/expert_layout.ts";

interface RecordedStep {
  readonly number: number;
  /** Of the model, and those of them that have experts. */
  readonly layers: number;
  readonly sparse: readonly number[];
  readonly choices: StepChoices;
  readonly batch: Pick<Batch, "sequences">;
  readonly layout: ExpertLayout | undefined;
}

/** What a layer without experts has in place of slots. */
const NO_SLOT = -1;

export function passRecord(
  mode: Exclude<ExpertRecorderMode, "stat">,
  step: RecordedStep,
): ExpertPassRecord {
  const { number: forwardPass } = step;
  return mode === "per_pass"
    ? { forwardPass, slotCounts: slotCounts(step) }
    : { forwardPass, rows: recordedRows(step) };
}

/** Numbers that it keeps. */
export function sizeOf(record: ExpertPassRecord | undefined): number {
  if (record === undefined) return 0;
  const { slotCounts: counts = [], rows } = record;
  const counted = counts.reduce((sum, layer) => sum + layer.length, 0);
  if (rows === undefined) return counted;
  const slots = rows.slots.reduce((sum, layer) => sum + layer.length, 0);
  return counted + slots + 2 * rows.tokens.length;
}

function slotCounts({ layers, sparse, choices, layout }: RecordedStep): Uint32Array[] {
  const lists = Array.from({ length: layers }, () => new Uint32Array(layout?.slots ?? 0));
  const each = choices.slots.length / sparse.length;
  sparse.forEach((layer, i) => {
    const list = lists[layer]!;
    for (const slot of choices.slots.subarray(i * each, (i + 1) * each)) list[slot]! += 1;
  });
  return lists;
}

function recordedRows({ layers, sparse, choices, batch }: RecordedStep): RecordedRows {
  const { rows, tokens, positions, slots } = choices;
  const each = slots.length / sparse.length;
  const none = new Int32Array(each).fill(NO_SLOT);
  const lists = Array.from({ length: layers }, () => none);
  sparse.forEach((layer, i) => {
    lists[layer] = Int32Array.from(slots.subarray(i * each, (i + 1) * each));
  });
  const prompts = batch.sequences.filter(({ phase }) => phase === "prefill");
  return {
    tokens,
    positions,
    slots: lists,
    perRow: rows === 0 ? 0 : each / rows,
    forwardMode: forwardMode(batch),
    extendLengths: prompts.map(({ queryLength }) => queryLength),
  };
}

function forwardMode({ sequences }: Pick<Batch, "sequences">): RecordedRows["forwardMode"] {
  if (sequences.length === 0) return "idle";
  const prompts = sequences.filter(({ phase }) => phase === "prefill").length;
  if (prompts === sequences.length) return "extend";
  if (prompts > 0) return "mixed";
  return sequences.some(({ phase }) => phase === "verify") ? "target_verify" : "decode";
}
