/**
 * Finds the tuning that is fastest on an adapter, by running the kernel of linear layers in the
 * forms that it may take.
 *
 * A form counts only when its bits are those of the plain one, and the winners pass the start-up
 * self-test, which compares them with a reference.
 *
 * @module
 */
import { DeviceError, InvalidRequestError } from "../src/errors.ts";
import { formOf } from "../src/gpu/row_forms.ts";
import { stagedFits } from "../src/gpu/staged_room.ts";
import {
  type RowForm,
  STAGED_TOKENS,
  TUNING_CHOICES,
  type Tuning,
  tuningFor,
} from "../src/gpu/tuning.ts";
import {
  type GroupColumns,
  layoutFor,
  scaleWords,
  type WeightDtype,
} from "./linear/weights/layout.ts";
import { orderOf, type WeightOrder } from "./linear/weights/weight_order.ts";
import { selfTest } from "./self_test.ts";
import { TimedMatrix, type TunedMatrix } from "./timed_matrix.ts";
import { timeUpload, type UploadTimes } from "./timed_upload.ts";
import { tuneFusions } from "./tune_fusions.ts";

export type { TunedMatrix, UploadTimes };

export interface TuneOptions {
  /** Default: 2048x2048 and 4096x4096 in BF16, FP8, int8 and int4. */
  readonly matrices?: readonly TunedMatrix[];
  /** Columns of a group of int4 weights. Default 128. */
  readonly groupColumns?: GroupColumns;
  /** Lanes to try. Default: all that a tuning may have. */
  readonly lanes?: readonly number[];
  /** Orders of the words to try with the best lanes, beside the plain one. Default: all others. */
  readonly orders?: readonly Omit<WeightOrder, "lanes">[];
  /** Milliseconds that each form is measured for, at least. Default 60. */
  readonly milliseconds?: number;
  /** Called before each matrix in each layout. */
  readonly onProgress?: (done: number, total: number) => void;
}

/** What one form took, over all matrices of its dtype. */
export interface MeasuredForm {
  readonly dtype: WeightDtype;
  readonly lanes: number;
  readonly tokens: number;
  readonly split: number;
  readonly workgroup: number;
  /** There in staged forms. */
  readonly staged?: true;
  /**
   * Of a launch over `tokens` rows, of a staged form what they take among those of a prompt; infinite
   * where the form gives other bits.
   */
  readonly seconds: number;
  /** Weights of these matrices. */
  readonly weights: number;
}

export interface TuneResult {
  readonly tuning: Tuning;
  /** The winner of each dtype and number of tokens, in the layout that was chosen. */
  readonly winners: readonly MeasuredForm[];
  /** How long weights take to be put in the order of that layout. */
  readonly upload: UploadTimes;
}

/** Forms, and how long they take where the words of weights lie so. */
interface Tried {
  readonly order: WeightOrder;
  readonly winners: readonly MeasuredForm[];
  readonly time: number;
}

type FindWinners = (
  matrices: readonly TimedMatrix[],
  dtype: WeightDtype,
) => Promise<MeasuredForm[]>;

type Share = Pick<RowForm, "split" | "workgroup"> & { readonly staged?: true };

const DEFAULT_DTYPES = ["bf16", "fp8", "int8", "int4"] as const;
const DEFAULT_SIZES = [2048, 4096] as const;
/** Another form must be faster by this much: less is noise. */
const CLEARLY = 0.95;
/** That each form is measured for, at least. */
const MILLISECONDS = 60;
/** Numbers of rows that a form must be the best for some of, to be kept. */
const MOST_ROWS = 64;
const MOST_INVOCATIONS = 256;

/** Ways to share out a launch over one row, from nothing shared to the most. */
function oneRowShares(lanes: number): Share[] {
  const wanted: readonly Share[] = [
    { split: 1, workgroup: 8 },
    { split: 1, workgroup: 64 },
    { split: 8, workgroup: 64 },
    { split: 16, workgroup: 128 },
    { split: 32, workgroup: 256 },
  ];
  return fitting(wanted, lanes);
}

/** Those of a launch over more rows: the best for one, and others with less shared out. */
function severalRowShares(lanes: number, best: Share): Share[] {
  const { split, workgroup } = best;
  return fitting(
    [
      { split: 1, workgroup: 8 },
      { split: 1, workgroup: 64 },
      { split, workgroup },
    ],
    lanes,
  );
}

/** Invocations with weight rows of their own in the staged forms that are tried: 64 or 128 outputs. */
const STAGED_ROW_LANES = [16, 32] as const;

/** Staged forms of so many rows, one for each number of outputs. */
function stagedShares(lanes: number, tokens: number): Share[] {
  return STAGED_ROW_LANES.map((rowLanes) => (rowLanes * tokens) / STAGED_TOKENS)
    .filter((workgroup) => stagedFits({ tokens, workgroup }, lanes))
    .map((workgroup) => ({ split: 1, workgroup, staged: true }));
}

/** Those of which a workgroup has whole runs of lanes, each once. */
function fitting(shares: readonly Share[], lanes: number): Share[] {
  const raised = shares
    .filter(({ split }) => split * lanes <= MOST_INVOCATIONS)
    .map(({ split, workgroup }) => ({ split, workgroup: Math.max(workgroup, split * lanes) }));
  return [...new Map(raised.map((share) => [`${share.split} ${share.workgroup}`, share])).values()];
}

/**
 * Measures, checks and chooses. Takes from seconds to minutes; other work on the device disturbs it.
 *
 * @throws {InvalidRequestError} when there is no matrix or no layout to try.
 * @throws {DeviceError} when the kernels give wrong numbers on this adapter.
 */
export async function tuneKernels(
  device: GPUDevice,
  options: TuneOptions = {},
): Promise<TuneResult> {
  const { matrices = defaultMatrices(), lanes: layouts = TUNING_CHOICES.lanes } = options;
  if (matrices.length === 0 || layouts.length === 0) {
    throw new InvalidRequestError(
      "Cannot tune kernels: the options name no matrices or no lanes",
      "matrices",
    );
  }
  const { orders = otherOrders(matrices) } = options;
  const total = (layouts.length + orders.length) * matrices.length;
  let done = 0;
  const measure = async (order: WeightOrder, winnersOf: FindWinners): Promise<Tried> => {
    const winners: MeasuredForm[] = [];
    for (const dtype of new Set(matrices.map((matrix) => matrix.dtype))) {
      const timed: TimedMatrix[] = [];
      try {
        for (const matrix of matrices.filter((one) => one.dtype === dtype)) {
          options.onProgress?.(done++, total);
          timed.push(await TimedMatrix.create(device, { ...options, ...matrix, ...order }));
        }
        winners.push(...(await winnersOf(timed, dtype)));
      } finally {
        for (const matrix of timed) matrix.destroy();
      }
    }
    return { order, winners, time: timeOf(winners) };
  };
  const tried: Tried[] = [];
  for (const lanes of layouts) {
    tried.push(await measure({ lanes }, (timed, dtype) => bestForms(timed, { dtype, lanes })));
  }
  const plain = soonest(tried);
  const ordered = [plain];
  for (const order of orders) {
    const again: FindWinners = (timed, dtype) =>
      timesAgain(
        timed,
        plain.winners.filter((winner) => winner.dtype === dtype),
      );
    ordered.push(await measure({ ...plain.order, ...order }, again));
  }
  options.onProgress?.(total, total);
  const best = soonest(ordered);
  const forms = formsOf(best);
  const { milliseconds = MILLISECONDS } = options;
  const { foldsNorms, findsBest } = await tuneFusions(device, forms, milliseconds);
  const upload = await timeUpload(device, forms);
  const repacks = upload.gpu < CLEARLY * upload.host;
  const { sequential } = tuningFor(device.adapterInfo);
  const tuning: Tuning = {
    ...forms,
    ...(foldsNorms && { foldsNorms }),
    ...(findsBest && { findsBest }),
    ...(repacks && { repacks }),
    // What the adapter is, and no choice to measure.
    ...(sequential && { sequential }),
  };
  await requireSelfTest(device, tuning, { ...options, matrices });
  const kept = best.winners.filter(({ dtype, tokens }) =>
    tuning.dtypeForms![dtype]!.some((form) => form.tokens === tokens),
  );
  return { tuning, winners: kept, upload };
}

function defaultMatrices(): TunedMatrix[] {
  return DEFAULT_DTYPES.flatMap((dtype) =>
    DEFAULT_SIZES.map((size) => ({ dtype, rows: size, columns: size })),
  );
}

/** The fastest form for each number of tokens. */
async function bestForms(
  matrices: readonly TimedMatrix[],
  { dtype, lanes }: { readonly dtype: WeightDtype; readonly lanes: number },
): Promise<MeasuredForm[]> {
  const weights = matrices.reduce((sum, matrix) => sum + matrix.weights, 0);
  const winners: MeasuredForm[] = [];
  const sharesOf = (tokens: number): Share[] => {
    const [first] = winners;
    if (first === undefined) return oneRowShares(lanes);
    const staged = TUNING_CHOICES.stagedTokens.some((count) => count === tokens);
    return staged ? stagedShares(lanes, tokens) : severalRowShares(lanes, first);
  };
  for (const tokens of [...TUNING_CHOICES.tokens, ...TUNING_CHOICES.stagedTokens]) {
    let best: MeasuredForm | undefined;
    for (const share of sharesOf(tokens)) {
      let seconds = 0;
      for (const matrix of matrices) seconds += await matrix.seconds({ tokens, cost: 1, ...share });
      if (best !== undefined && !(seconds < CLEARLY * best.seconds)) continue;
      best = { dtype, lanes, tokens, ...share, seconds, weights };
    }
    if (best !== undefined && Number.isFinite(best.seconds)) winners.push(best);
    // Forms of more rows are nothing without one of one row.
    if (winners.length === 0) break;
  }
  if (winners.length > 0) return winners;
  throw new DeviceError(`Cannot use this adapter: the ${dtype} kernels give other bits every time`);
}

/** Other orders of the words: of weights without scales those with others of their granules. */
function otherOrders(matrices: readonly TunedMatrix[]): TuneOptions["orders"] & object {
  const scaled = matrices.some(({ dtype }) => scaleWords({ dtype, columns: 1 }) > 0);
  const scaleOrders = scaled ? TUNING_CHOICES.scaleOrder : TUNING_CHOICES.scaleOrder.slice(0, 1);
  const all = TUNING_CHOICES.rowsPerLane.flatMap((rowsPerLane) =>
    scaleOrders.map((scaleOrder) => ({ rowsPerLane, scaleOrder })),
  );
  return all.slice(1);
}

/** The same forms over matrices whose words lie in another order. */
async function timesAgain(
  matrices: readonly TimedMatrix[],
  winners: readonly MeasuredForm[],
): Promise<MeasuredForm[]> {
  const again: MeasuredForm[] = [];
  for (const winner of winners) {
    const { tokens, split, workgroup, staged } = winner;
    const form = { tokens, split, workgroup, ...(staged && { staged }), cost: 1 };
    let seconds = 0;
    for (const matrix of matrices) seconds += await matrix.seconds(form);
    again.push({ ...winner, seconds });
  }
  return again;
}

/** Those whose time is clearly less than that of all before them. */
function soonest(tried: readonly Tried[]): Tried {
  return tried.reduce((most, one) => (one.time < CLEARLY * most.time ? one : most));
}

/** Of one row, in all dtypes: a weight counts the same in each. Infinite where any form gives other bits. */
function timeOf(winners: readonly MeasuredForm[]): number {
  if (winners.some(({ seconds }) => !Number.isFinite(seconds))) return Number.POSITIVE_INFINITY;
  const one = winners.filter(({ tokens }) => tokens === 1);
  return one.reduce((sum, { seconds, weights }) => sum + seconds / weights, 0);
}

/** What a tuning says of launches alone. */
function formsOf({ order, winners }: Tried): Tuning {
  const dtypeForms: Record<string, readonly RowForm[]> = {};
  for (const dtype of new Set(winners.map((winner) => winner.dtype))) {
    const own = winners.filter((winner) => winner.dtype === dtype);
    const forms = own.map(({ tokens, split, workgroup, staged, seconds }) => ({
      tokens,
      split,
      workgroup,
      ...(staged && { staged }),
      cost: Math.max(Math.round((100 * seconds) / own[0]!.seconds) / 100, 0.01),
    }));
    const rows = Array.from({ length: MOST_ROWS }, (_, i) => i + 1);
    const taken = new Set(rows.map((count) => formOf(forms, count)));
    // The first is the unit of the costs, and what few pairs of experts take.
    dtypeForms[dtype] = forms.filter((form, i) => i === 0 || taken.has(form));
  }
  const rowForms = Object.values(dtypeForms)[0]!;
  return { ...orderOf(order), rowForms, dtypeForms };
}

async function requireSelfTest(
  device: GPUDevice,
  tuning: Tuning,
  { matrices, groupColumns }: TuneOptions & { readonly matrices: readonly TunedMatrix[] },
): Promise<void> {
  const { batchInvariant, failures } = await selfTest(device, {
    dtypes: [...new Set(matrices.map(({ dtype }) => dtype))],
    ...(groupColumns !== undefined && { groupColumns }),
    layout: layoutFor(device, tuning),
  });
  if (batchInvariant) return;
  throw new DeviceError(`Cannot tune kernels on this adapter: ${failures.join("; ")}`);
}
