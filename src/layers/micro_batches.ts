/**
 * A step's rows as two micro-batches, of which one computes while the other's rows are on their way
 * between ranks (two-batch overlap).
 *
 * They are cut where a sequence begins, so that each has whole ones: no bit of a row depends on it. What
 * is known of rows by their numbers is the step's for the first, and copied for the second, as the GPU
 * may have written it. Page tables, paths of trees and turns of parted positions are the step's.
 *
 * @module
 */
import type { StepArrays } from "../gpu/launch_cost.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Plan } from "../gpu/plan.ts";
import type { Recorder } from "../gpu/recorder.ts";
import type { Tensor } from "../gpu/tensor.ts";
import { ITEM_WORDS, maxPasses, PrefillPasses } from "./attention/prefill_passes.ts";
import { fillRowGroups, GROUP_WORDS } from "./attention/row_groups.ts";
import {
  type Batch,
  type BatchSequence,
  EMPTY_STEP,
  type MicroBatchSteps,
  type Step,
} from "./batch.ts";
import { microBatchGroups } from "./ranks/group_sizes.ts";
import { ROW_WORDS, type StepTensors, type StepTensorsOptions } from "./step_tensors.ts";

/** What the layers of the two read: the step's tensors, with their own in some places. */
export type MicroBatchTensors = readonly [StepTensors, StepTensors];

/** Rows that the second may have, of so many in a step. */
export const secondRows = (maxRows: number) => Math.ceil(maxRows / 2);

export function allocateMicroBatches(
  memory: DeviceMemory,
  step: StepTensors,
  options: StepTensorsOptions,
): MicroBatchTensors {
  const { maxRows, capacity } = options;
  const passes = maxPasses(options);
  const allocate = (words: number, label: string) =>
    memory.allocate("activations", words * 4, `${label} of a micro-batch`);
  const own = () => ({
    keySlots: allocate(Math.max(passes * capacity, 1), "key slots"),
    items: allocate(passes * maxRows * ITEM_WORDS, "prefill items"),
    rowGroups: step.rowGroups && allocate(maxRows * GROUP_WORDS, "row groups"),
  });
  const rows = () => allocate(secondRows(maxRows) * ROW_WORDS, "rows");
  const { parted } = step;
  return [
    { ...step, ...own() },
    { ...step, ...own(), rows: rows(), parted: parted && { ...parted, rows: rows() } },
  ];
}

/**
 * Where a batch is cut: the start of the sequence that leaves the most even parts.
 *
 * @param rows Of the batch, those that fill it up too.
 * @param most Rows that the second part may have.
 * @returns The number of that sequence; undefined where there is none.
 */
export function cutOf(
  sequences: readonly Pick<BatchSequence, "queryStart">[],
  { rows, most }: Readonly<Record<"rows" | "most", number>>,
): number | undefined {
  let cut: number | undefined;
  let least = Number.POSITIVE_INFINITY;
  let before = -1;
  for (const [number, { queryStart }] of sequences.entries()) {
    // Those behind are to have the rows behind.
    if (queryStart <= before) return undefined;
    before = queryStart;
    const apart = Math.abs(2 * queryStart - rows);
    if (queryStart === 0 || rows - queryStart > most || apart >= least) continue;
    least = apart;
    cut = number;
  }
  return cut;
}

/** The two of a step, as they are written for it. */
export class MicroBatches {
  readonly tensors: MicroBatchTensors;
  /** Steps that were cut, since it was made: of each attention group. */
  readonly #cutSteps: number[] = [];
  readonly #device: GPUDevice;
  readonly #most: number;
  readonly #capacity: number;
  readonly #parts: readonly [Part, Part];
  readonly #steps: MicroBatchSteps;

  constructor(
    device: GPUDevice,
    memory: DeviceMemory,
    { step, ...options }: StepTensorsOptions & { readonly step: StepTensors },
  ) {
    this.tensors = allocateMicroBatches(memory, step, options);
    this.#device = device;
    this.#most = secondRows(options.maxRows);
    this.#capacity = options.capacity;
    this.#parts = [new Part(options), new Part(options)];
    const [first, second] = this.#parts;
    this.#steps = [first.step, second.step];
  }

  /** Steps of an attention group that were cut. */
  cutStepsOf(group: number): number {
    return this.#cutSteps[group] ?? 0;
  }

  /**
   * Writes what the layers of a step read, cut in two where `isCut`, and two are there.
   *
   * @param step The sizes of all of it, which it has been given already, but for these.
   * @param given `padding`: rows behind those of the batch; `timed`: of all rows, where launches are.
   */
  write(
    { sequences, sources }: Batch,
    step: Step,
    given: {
      readonly padding: number;
      readonly isCut: boolean;
      readonly timed: StepArrays | undefined;
    },
  ): void {
    const [first, second] = this.#parts;
    const { padding: rows, timed } = given;
    const sizes = { rows: step.rows, most: this.#most };
    const cut = given.isCut ? cutOf(sequences, sizes) : undefined;
    step.microBatches = cut === undefined ? undefined : this.#steps;
    if (cut === undefined) {
      const padding = { first: sources.length, rows };
      first.fill(sequences, step, { from: 0, end: step.rows, padding, timed });
      this.#send(0);
      return;
    }
    const end = sequences[cut]!.queryStart;
    const before = sequences.slice(0, cut);
    first.fill(before, step, { from: 0, end, padding: { first: end, rows: 0 }, timed });
    const behind = sequences.slice(cut).map((one) => {
      return { ...one, queryStart: one.queryStart - end };
    });
    const padding = { first: sources.length - end, rows };
    second.fill(behind, step, { from: end, end: step.rows, padding, timed });
    this.#send(0);
    this.#send(1);
  }

  /**
   * Has both parts know what attention groups have of them, once these have met: where one group's batch
   * is cut, a step of all has two parts, and one that is not has all its rows in the first.
   */
  meet(step: Step): void {
    const { groups } = step;
    const cut = groups?.map(({ rows, firstRows }) => firstRows < rows);
    const isCut = cut ?? [step.microBatches !== undefined];
    for (const [group, own] of isCut.entries()) {
      this.#cutSteps[group] = this.cutStepsOf(group) + Number(own);
    }
    if (groups === undefined || !isCut.includes(true)) return;
    const [first, second] = this.#steps;
    if (step.microBatches === undefined) {
      const place = { first: step.rows, all: step.rows, arrays: undefined };
      Object.assign(second, EMPTY_STEP, { place });
      step.microBatches = this.#steps;
    }
    first.groups = microBatchGroups(groups, 0);
    second.groups = microBatchGroups(groups, 1);
  }

  #send(which: 0 | 1): void {
    const { passes, keySlots, items, itemCount } = this.#parts[which].prefill;
    const { groups, step } = this.#parts[which];
    const tensors = this.tensors[which];
    if (step.decodeGroups > 0) {
      this.#write(tensors.rowGroups!, groups, step.decodeGroups * GROUP_WORDS);
    }
    if (passes.length === 0) return;
    const last = passes.length - 1;
    if (this.#capacity > 0) {
      this.#write(tensors.keySlots, keySlots, last * this.#capacity + passes[last]!.keys);
    }
    this.#write(tensors.items, items, itemCount * ITEM_WORDS);
  }

  #write({ buffer, offset }: Tensor, data: Uint32Array<ArrayBuffer>, words: number): void {
    this.#device.queue.writeBuffer(buffer, offset, data, 0, words);
  }
}

/** Adds what brings the second micro-batch its rows' words, behind what the GPU writes of them. */
export function compileSecondRows(
  plan: Plan<Step>,
  step: Pick<StepTensors, "rows" | "parted">,
  second: Pick<StepTensors, "rows" | "parted">,
): void {
  const rowBytes = ROW_WORDS * 4;
  plan.addVarying((sizes) => {
    const take = (whole: Tensor, own: Tensor) =>
      copySecond(plan.recorder, sizes, { whole, second: own, rowBytes }, "taken");
    take(step.rows, second.rows);
    if (step.parted !== undefined) take(step.parted.rows, second.parted!.rows);
  });
}

/** Records a copy of the rows of the second micro-batch, where a step has two. */
export function copySecond(
  recorder: Recorder,
  { microBatches }: Step,
  { whole, second, rowBytes }: SecondRows,
  way: "taken" | "returned",
): void {
  if (microBatches === undefined || microBatches[1].rows === 0) return;
  const { rows, place } = microBatches[1];
  const part = behind(whole, place!.first * rowBytes);
  const [from, to] = way === "taken" ? [part, second] : [second, part];
  recorder.copy(from, to, rows * rowBytes);
}

interface SecondRows {
  /** Has rows of the step, */
  readonly whole: Tensor;
  /** and of the second micro-batch. */
  readonly second: Tensor;
  readonly rowBytes: number;
}

function behind({ buffer, offset, size }: Tensor, bytes: number): Tensor {
  return { buffer, offset: offset + bytes, size: size - bytes };
}

/** One of them on the host. */
class Part {
  readonly prefill: PrefillPasses;
  readonly groups: Uint32Array<ArrayBuffer>;
  readonly step: Step = { ...EMPTY_STEP };
  readonly #sharesReads: boolean;

  constructor(options: StepTensorsOptions) {
    this.prefill = new PrefillPasses(options);
    this.groups = new Uint32Array(options.maxRows * GROUP_WORDS);
    this.#sharesReads = options.sharesReads;
  }

  /**
   * @param sequences With their rows as this one numbers them.
   * @param whole The step. What rows are not counted by is the same of a part.
   * @param at `from`, `end`: its first row among those of the step, and that behind its last.
   */
  fill(
    sequences: readonly BatchSequence[],
    whole: Step,
    at: {
      readonly from: number;
      readonly end: number;
      readonly padding: Readonly<Record<"first" | "rows", number>>;
      readonly timed: StepArrays | undefined;
    },
  ): void {
    const { step } = this;
    const { from: first, end, padding, timed } = at;
    this.prefill.fill(sequences);
    step.passes = this.prefill.passes;
    step.rows = end - first;
    step.decodeRows = Math.min(Math.max(whole.decodeRows - first, 0), step.rows);
    step.decodeSplits = whole.decodeSplits;
    step.decodeGroups = this.#sharesReads ? fillRowGroups(this.groups, sequences, padding) : 0;
    step.decodesOne = whole.decodesOne;
    step.hasTrees = whole.hasTrees;
    step.onlyBest = whole.onlyBest;
    step.draft = whole.draft;
    const arrays = timed && {
      rows: timed.rows.subarray(first * ROW_WORDS, end * ROW_WORDS),
      decodeRows: step.decodeRows,
      items: this.prefill.items,
    };
    step.place = { first, all: whole.rows, arrays };
  }
}
