/**
 * What the checks of kernels that combine the experts of rows have in common: all experts of few
 * rows, whose results go onto the residual stream and through the next norm.
 *
 * @module
 */
import type { Recorder } from "../../../src/gpu/recorder.ts";
import { allocateTensor, type Tensor } from "../../../src/gpu/tensor.ts";
import type { RowForm } from "../../../src/gpu/tuning.ts";
import type { ExpectedArrays, HostArrays, Mutant } from "../../check.ts";
import { formsOf } from "../../linear/checks/check_forms.ts";
import {
  checkOrder,
  dot,
  gatedRow,
  outputsByColumns,
  quantizeRow,
  randomRows,
} from "../../linear/checks/check_weights.ts";
import type { LinearLayout } from "../../linear/linear_layout.ts";
import { segments } from "../../linear/weights/layout.ts";
import { gateUpRows } from "../../linear/weights/weight_order.ts";
import { type AddNormOptions, addNorm } from "../../norm/add_norm.ts";
import { normedShape, partOf } from "../../norm/normed_rows.ts";
import { normedRow } from "../../norm/reference.ts";
import {
  type ExpertShape,
  expertBiases,
  expertWeights,
  layoutOf,
  randomExperts,
  randomPairs,
  tileSizeOf,
  tilesName,
  unpackExperts,
} from "./check_experts.ts";
import { expertCombine } from "./expert_combine.ts";
import { expertDown } from "./expert_down.ts";
import { expertGateUp } from "./expert_gate_up.ts";
import { tileCombine } from "./tile_combine.ts";

export interface CombineShape extends ExpertShape {
  readonly hidden: number;
  readonly intermediate: number;
  readonly rounded: boolean;
  /** Size of the numbers in the residual stream. */
  readonly scale: number;
  readonly eps: number;
}

const upMatrix = ({ hidden, intermediate, ...shape }: CombineShape) =>
  outputsByColumns({
    ...shape,
    columns: hidden,
    outputs: gateUpRows(intermediate, checkOrder(shape)).rows,
  });
export const downMatrix = ({ hidden, intermediate, ...shape }: CombineShape) =>
  outputsByColumns({ ...shape, outputs: hidden, columns: intermediate });
const strideOf = (columns: number) => Math.ceil(columns / 4) * 4 + 4;
const named = (prefix: string, arrays: Readonly<Record<string, Uint32Array | Float32Array>>) =>
  Object.fromEntries(Object.entries(arrays).map(([name, array]) => [`${prefix}_${name}`, array]));
const unnamed = <T>(prefix: string, arrays: Readonly<Record<string, T>>): Record<string, T> =>
  Object.fromEntries(
    Object.entries(arrays)
      .filter(([name]) => name.startsWith(`${prefix}_`))
      .map(([name, array]) => [name.slice(prefix.length + 1), array]),
  );

/** A binding starts at a multiple of 256 bytes. */
const BINDING_WORDS = 64;
/** Where `lists` has the expert of each pair, behind those the pairs by expert, then their weights. */
const EXPERTS_AT = BINDING_WORDS;
const listAt = (pairs: number, list: number) =>
  EXPERTS_AT + list * Math.ceil(pairs / BINDING_WORDS) * BINDING_WORDS;
const weightsAt = (pairs: number) => listAt(pairs, 2);

function listsOf(
  { experts, sorted_pairs }: Readonly<Record<string, Uint32Array>>,
  random: () => number,
  scale: number,
): Uint32Array {
  const pairs = experts!.length;
  const start = weightsAt(pairs);
  const lists = new Uint32Array(start + pairs).fill(0xdeadbeef);
  lists.set(experts!, EXPERTS_AT);
  lists.set(sorted_pairs!, listAt(pairs, 1));
  const weights = Float32Array.from(experts!, () => (0.5 + random()) * scale);
  lists.set(new Uint32Array(weights.buffer), start);
  return lists;
}

export function combineInputs(shape: CombineShape, random: () => number): HostArrays {
  const { rows, hidden, scale } = shape;
  const stride = strideOf(hidden);
  const pairs = randomPairs(shape, random);
  const x = randomRows({ rows, columns: hidden, stride }, random);
  const weights = (size: number) =>
    Float32Array.from({ length: hidden }, () => (0.5 + random()) * size);
  return {
    x: x.map((value) => value * scale),
    // So small that the experts give about what is in the stream.
    norm_weight: weights(1 / 8),
    next_weight: weights(1),
    lists: listsOf(pairs, random, scale / 8),
    tiles: pairs.tiles!,
    tiles_2: pairs.tiles_2!,
    ...named("up", randomExperts(shape, upMatrix(shape), random)),
    ...named("down", randomExperts(shape, downMatrix(shape), random)),
  };
}

export function combinedRows(shape: CombineShape, inputs: HostArrays): ExpectedArrays {
  const { rows, slots, hidden, intermediate, rounded: rounds, eps } = shape;
  const [upInputs, downInputs] = [unnamed("up", inputs), unnamed("down", inputs)];
  const up = unpackExperts(shape, upMatrix(shape), upInputs);
  const down = unpackExperts(shape, downMatrix(shape), downInputs);
  const upBiases = expertBiases(shape, upMatrix(shape), upInputs);
  const downBiases = expertBiases(shape, downMatrix(shape), downInputs);
  const { upRow } = gateUpRows(intermediate, checkOrder(shape));
  const lists = inputs.lists as Uint32Array;
  const slotWeights = new Float32Array(lists.buffer, 4 * weightsAt(rows * slots));
  const stride = strideOf(hidden);
  const x = Float64Array.from(inputs.x!);
  const { stride: normedStride, rounded = 0 } = normedShape(hidden, rounds);
  const normed = new Float64Array(rows * normedStride);
  for (let r = 0; r < rows; r++) {
    const row = x.subarray(r * stride, r * stride + hidden);
    const mean = row.reduce((sum, value) => sum + value * value, 0) / hidden;
    const scale = 1 / Math.sqrt(mean + eps);
    const input = normedRow(row, inputs.norm_weight!, { rounds }).subarray(rounded);
    const combined = new Float64Array(hidden);
    for (let pair = r * slots; pair < (r + 1) * slots; pair++) {
      const expert = lists[EXPERTS_AT + pair]!;
      const matrix = { weight: up[expert]!, columns: hidden };
      const sum = (i: number) =>
        dot({ ...matrix, row: i }, input, 0) * scale + upBiases[expert]![i]!;
      const h = gatedRow(intermediate, sum, (i) => sum(upRow + i));
      if (rounds) quantizeRow(h);
      for (let n = 0; n < hidden; n++) {
        const output = dot({ weight: down[expert]!, columns: intermediate, row: n }, h, 0);
        combined[n]! += slotWeights[pair]! * (output + downBiases[expert]![n]!);
      }
    }
    combined.forEach((value, n) => {
      row[n]! += value;
    });
    normed.set(normedRow(row, inputs.next_weight!, { rounds }), r * normedStride);
  }
  return { x, normed };
}

/** How the experts of rows are combined: by pair, by tile, or apart. */
export const [APART, BY_PAIR, BY_TILE] = [0, 1, 2];

export function bindCombine(
  recorder: Recorder,
  shape: CombineShape,
  tensors: Readonly<Record<string, Tensor>>,
  { folded = APART, subgroups = 0, sequential = 0, ...form }: Readonly<Record<string, number>>,
): () => void {
  const { rows, hidden, rounded, eps } = shape;
  // The same rows before the experts and after them, as in a model.
  const normed = { ...normedShape(hidden, rounded), tensor: tensors.normed! };
  // The first half runs by pair.
  const pairTile = tileSizeOf(form);
  const forms = [{ ...form, tokens: 1 }, ...(folded === BY_TILE ? [form] : [])].flatMap(formsOf);
  const launches: CombineLaunches = {
    shape,
    tensors,
    forms,
    pairTile,
    layout: layoutOf({ subgroups, sequential, pairTile }, recorder.device),
    norm: { x: tensors.x!, normed, cols: hidden, stride: strideOf(hidden), eps },
    lists: pairLists(shape, tensors.lists!),
  };
  const before = addNorm(recorder, { ...launches.norm, weight: tensors.norm_weight! });
  const { gateUp, halves } = bindFirstHalf(recorder, launches);
  const bindSecondHalf =
    folded === APART ? bindApart : folded === BY_PAIR ? bindByPair : bindByTile;
  const combine = bindSecondHalf(recorder, launches, halves);
  return () => {
    before(rows);
    gateUp(rows);
    combine(rows);
  };
}

/** What all launches of a check are bound with. */
interface CombineLaunches {
  readonly shape: CombineShape;
  readonly tensors: Readonly<Record<string, Tensor>>;
  readonly forms: RowForm[];
  /** Pairs of a tile. */
  readonly pairTile: number;
  readonly layout: Partial<LinearLayout>;
  readonly norm: NormedStream;
  readonly lists: ReturnType<typeof pairLists>;
}

/** The rows of the residual stream, and what their norm is written to. */
type NormedStream = Pick<AddNormOptions, "x" | "normed" | "cols" | "eps"> & {
  readonly stride: number;
};

/** The lists of pairs that a router makes, which lie in one buffer. */
function pairLists({ rows, slots }: CombineShape, { buffer }: Tensor) {
  const pairs = rows * slots;
  const list = (index: number): Tensor => ({
    buffer,
    offset: listAt(pairs, index) * 4,
    size: pairs * 4,
  });
  return { experts: list(0), sortedPairs: list(1), slotWeights: list(2) };
}

/** The weights of a half: of all slabs those that are as large as the first. */
function slabWeights(
  { shape, tensors, layout }: CombineLaunches,
  prefix: string,
  matrix: ReturnType<typeof upMatrix>,
) {
  const [first] = shape.slabs;
  const all = expertWeights(shape, matrix, unnamed(prefix, tensors));
  const slabs = all.slabs.filter(({ expertCount }) => expertCount === first);
  return { ...all, ...layout, slabs };
}

/** Gate and up of all pairs, and what the second half is told of them. */
function bindFirstHalf(recorder: Recorder, launches: CombineLaunches) {
  const { shape, forms, norm, lists } = launches;
  const { rows, slots, intermediate, rounded, eps } = shape;
  const { experts } = lists;
  const stride = strideOf(intermediate);
  const inner = allocateTensor(recorder.device, rows * slots * stride * 4, "intermediate");
  const shared = { slots, experts, sortedPairs: experts, tiles: experts, forms };
  const gateUp = expertGateUp(recorder, {
    ...shared,
    ...partOf(norm.normed, norm.normed.rounded ?? 0, eps),
    weights: slabWeights(launches, "up", upMatrix(shape)),
    intermediate,
    quantize: rounded,
    out: inner,
    outStride: stride,
  });
  const halves = {
    ...shared,
    x: inner,
    xStride: stride,
    weights: slabWeights(launches, "down", downMatrix(shape)),
    segments: segments(intermediate),
  };
  return { gateUp, halves };
}

type SecondHalf = ReturnType<typeof bindFirstHalf>["halves"];

/** What one launch adds the outputs of pairs to, and their weights. */
function streamOf({ norm, tensors, lists }: CombineLaunches) {
  const { x: hidden, stride, normed } = norm;
  const residual = { hidden, stride, weight: tensors.next_weight!, normed };
  return { slotWeights: lists.slotWeights, residual };
}

function bindByPair(recorder: Recorder, launches: CombineLaunches, halves: SecondHalf) {
  return expertCombine(recorder, { ...halves, ...streamOf(launches) });
}

function bindByTile(recorder: Recorder, launches: CombineLaunches, halves: SecondHalf) {
  const { lists, tensors, pairTile } = launches;
  return tileCombine(recorder, {
    ...halves,
    ...streamOf(launches),
    ...pairOutputs(recorder, launches),
    sortedPairs: lists.sortedPairs,
    tiles: tensors[tilesName(pairTile)]!,
  })!;
}

/** The outputs of each pair, not weighted. */
function pairOutputs({ device }: Recorder, { shape, norm }: CombineLaunches) {
  const { rows, slots } = shape;
  const outputs = allocateTensor(device, rows * slots * norm.stride * 4, "output");
  return { outputs, outputsStride: norm.stride };
}

function bindApart(recorder: Recorder, launches: CombineLaunches, halves: SecondHalf) {
  const { shape, norm, tensors, lists } = launches;
  const { outputs, outputsStride } = pairOutputs(recorder, launches);
  const down = expertDown(recorder, { ...halves, out: outputs, outStride: outputsStride });
  const weighted = { weights: lists.slotWeights, slots: shape.slots } as const;
  const addend = { kind: "combine", y: outputs, ...weighted } as const;
  const after = addNorm(recorder, { ...norm, addend, weight: tensors.next_weight! });
  return (rows: number) => {
    down(rows);
    after(rows);
  };
}

/** Faults in what goes onto the stream and through the norm. Case 1 has biases. */
export const STREAM_MUTANTS: readonly Mutant[] = [
  { name: "the bias is dropped", replace: "sums[t] + bias_of(row)", with: "sums[t]", case: 1 },
  {
    name: "nothing is added",
    replace: "out[at + output[i]] + sum[i]",
    with: "sum[i]",
  },
  { name: "the stream stays as it is", replace: "out[at + output[i]] = value;", with: "" },
  {
    name: "rows of the stream are too close",
    replace: "(tile_row + t) * params.out_stride",
    with: "(tile_row + t) * params.outputs",
  },
  {
    name: "outputs beyond the last are written",
    replace: "if output[i] < end {",
    with: "if true {",
  },
  { name: "the norm's weight is dropped", replace: "* norm_weight[column]", with: "" },
  {
    name: "what is not weighted counts for the scale",
    replace: "value * norm_weight[output[i]]",
    with: "value",
  },
  {
    name: "normed rows are too close",
    replace: "(tile_row + t) * params.normed_stride",
    with: "(tile_row + t) * params.outputs",
  },
  {
    name: "rounded rows lie on the others",
    replace: "beside + params.normed_rounded",
    with: "beside",
  },
  {
    name: "nothing is rounded",
    replace: "round_e4m3(value / scale) * scale",
    with: "value",
  },
  {
    name: "one output of four counts for the scale",
    replace: "most = max(most, abs(",
    with: "most = max(0.0, abs(",
  },
  {
    name: "the scale has a smallest magnitude",
    replace: "max(largest, 1e-30)",
    with: "max(largest, SMALLEST_MAGNITUDE)",
    case: 2,
  },
  {
    name: "squares are of the outputs before",
    replace: "output[i] - first] = value;",
    with: "output[i] - first] = sum[i];",
  },
  {
    name: "squares are of the weighted row",
    replace: "output[i] - first] = value;",
    with: "output[i] - first] = value * norm_weight[min(output[i], end - 1u)];",
  },
  {
    name: "squares are not squared",
    replace: "fma(values, values, squares)",
    with: "values + squares",
  },
  {
    name: "every sum of squares is of the first columns",
    replace: "var i = n * SQUARES_COLUMNS",
    with: "var i = 0u",
  },
  {
    name: "sums of squares lie side by side by workgroup",
    replace: "params.normed_squares + column / SQUARES_COLUMNS",
    with: "params.normed_squares + n % WORKGROUP_TILES",
  },
  {
    name: "sums of squares lie on the normed row",
    replace: "beside + params.normed_squares + column",
    with: "beside + column",
  },
  {
    name: "sums of squares beyond the last column are written",
    replace: "if column < end {",
    with: "if true {",
  },
];
