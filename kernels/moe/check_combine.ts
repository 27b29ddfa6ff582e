/**
 * What the checks of kernels that combine the experts of rows have in common: all experts of few
 * rows, whose results go onto the residual stream and through the next norm.
 *
 * @module
 */
import type { Recorder } from "../../src/gpu/recorder.ts";
import { allocateTensor, type Tensor } from "../../src/gpu/tensor.ts";
import type { ExpectedArrays, HostArrays, Mutant } from "../check.ts";
import { formsOf } from "../linear/check_forms.ts";
import {
  checkOrder,
  dot,
  gatedRow,
  outputsByColumns,
  quantizeRow,
  randomRows,
} from "../linear/check_weights.ts";
import { layoutFor, segments } from "../linear/layout.ts";
import { gateUpRows } from "../linear/weight_order.ts";
import { addNorm } from "../norm/add_norm.ts";
import { normedShape, partOf } from "../norm/normed_rows.ts";
import { normedRow } from "../norm/reference.ts";
import {
  type ExpertShape,
  expertBiases,
  expertWeights,
  randomExperts,
  randomPairs,
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
    ...{ ...shape, columns: hidden },
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
  { folded = APART, subgroups = 0, ...form }: Readonly<Record<string, number>>,
): () => void {
  const { rows, slots, hidden, intermediate, rounded, eps } = shape;
  const { device } = recorder;
  const [hiddenStride, stride] = [strideOf(hidden), strideOf(intermediate)];
  const pairs = rows * slots;
  const spare = (count: number, label: string) => allocateTensor(device, count * 4, label);
  const inner = spare(pairs * stride, "intermediate");
  const output = spare(pairs * hiddenStride, "output");
  const { x, norm_weight: weight, next_weight: nextWeight, lists } = tensors;
  const listFrom = (word: number): Tensor => ({
    ...{ buffer: lists!.buffer, offset: word * 4, size: pairs * 4 },
  });
  const [experts, sortedPairs, slotWeights] = [0, 1, 2].map((list) =>
    listFrom(listAt(pairs, list)),
  ) as [Tensor, Tensor, Tensor];
  // The same rows before the experts and after them, as in a model.
  const normed = { ...normedShape(hidden, rounded), tensor: tensors.normed! };
  const layout = subgroups === 1 ? layoutFor(device) : {};
  // The first half runs by pair.
  const forms = [{ ...form, tokens: 1 }, ...(folded === BY_TILE ? [form] : [])].flatMap(formsOf);
  const [first] = shape.slabs;
  const slab = (prefix: string, matrix: ReturnType<typeof upMatrix>) => {
    const all = expertWeights(shape, matrix, unnamed(prefix, tensors));
    const slabs = all.slabs.filter(({ expertCount }) => expertCount === first);
    return { ...all, ...layout, slabs };
  };
  const shared = { slots, experts, sortedPairs: experts, tiles: experts, forms };
  const gateUp = expertGateUp(recorder, {
    ...shared,
    ...partOf(normed, normed.rounded ?? 0, eps),
    ...{ weights: slab("up", upMatrix(shape)), intermediate, quantize: rounded },
    ...{ out: inner, outStride: stride },
  });
  const halves = {
    ...{ x: inner, xStride: stride, weights: slab("down", downMatrix(shape)) },
    segments: segments(intermediate),
  };
  const norm = { x: x!, normed, cols: hidden, stride: hiddenStride, eps };
  const before = addNorm(recorder, { ...norm, weight: weight! });
  if (folded !== APART) {
    const residual = { hidden: x!, stride: hiddenStride, weight: nextWeight!, normed };
    const both = { ...shared, ...halves, slotWeights, residual };
    const combine =
      folded === BY_PAIR
        ? expertCombine(recorder, both)
        : tileCombine(recorder, {
            ...{ ...both, sortedPairs, tiles: tensors.tiles! },
            ...{ outputs: output, outputsStride: hiddenStride },
          })!;
    return () => {
      before(rows);
      gateUp(rows);
      combine(rows);
    };
  }
  const down = expertDown(recorder, {
    ...{ ...shared, ...halves, out: output, outStride: hiddenStride },
  });
  const addend = { kind: "combine", y: output, weights: slotWeights, slots } as const;
  const after = addNorm(recorder, { ...norm, addend, weight: nextWeight! });
  return () => {
    before(rows);
    gateUp(rows);
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
