import { allocateTensor } from "../../src/gpu/tensor.ts";
import { defineCheck } from "../check.ts";
import { formsOf, ONE_ROW_FORMS } from "../linear/check_forms.ts";
import { dot, gatedRow, quantizeRow, randomRows } from "../linear/check_weights.ts";
import { gateUpRows, layoutFor, segments } from "../linear/layout.ts";
import { storedBytes } from "../linear/weight_cost.ts";
import { addNorm } from "../norm/add_norm.ts";
import { quantizeGroups } from "../norm/reference.ts";
import {
  chosenAtMost,
  type ExpertShape,
  expertWeights,
  LANES,
  randomExperts,
  randomPairs,
  unpackExperts,
} from "./check_experts.ts";
import { expertDown } from "./expert_down.ts";
import { expertGateUp } from "./expert_gate_up.ts";

interface Shape extends ExpertShape {
  readonly hidden: number;
  readonly intermediate: number;
  readonly rounded: boolean;
  readonly eps: number;
}

const upMatrix = ({ dtype, intermediate, hidden }: Shape) => ({
  ...{ dtype, columns: hidden, lanes: LANES },
  rows: gateUpRows(intermediate, LANES).rows,
});
const downMatrix = ({ dtype, intermediate, hidden }: Shape) => ({
  ...{ dtype, rows: hidden, columns: intermediate, lanes: LANES },
});
const strideOf = (columns: number) => Math.ceil(columns / 4) * 4 + 4;
const named = (prefix: string, arrays: Readonly<Record<string, Uint32Array | Float32Array>>) =>
  Object.fromEntries(Object.entries(arrays).map(([name, array]) => [`${prefix}_${name}`, array]));
const unnamed = <T>(prefix: string, arrays: Readonly<Record<string, T>>): Record<string, T> =>
  Object.fromEntries(
    Object.entries(arrays)
      .filter(([name]) => name.startsWith(`${prefix}_`))
      .map(([name, array]) => [name.slice(prefix.length + 1), array]),
  );

/** All experts of few rows: normed by the first half, combined and added by the second. */
export default defineCheck<Shape>({
  name: "moe/experts of rows",
  cases: [
    {
      ...{ dtype: "fp8", rows: 2, slots: 3, slabs: [4, 0] },
      ...{ hidden: 141, intermediate: 133, rounded: true, eps: 0.02 },
    },
    {
      ...{ dtype: "bf16", rows: 3, slots: 2, slabs: [3, 0] },
      ...{ hidden: 65, intermediate: 21, rounded: false, eps: 0.02 },
    },
    {
      ...{ dtype: "fp8", rows: 1, slots: 5, slabs: [8, 0] },
      ...{ hidden: 1024, intermediate: 512, rounded: true, eps: 1e-6 },
    },
  ],
  tunings: [
    ...ONE_ROW_FORMS.map((form) => ({ folded: 1, ...form })),
    { folded: 0 },
    { folded: 1, subgroups: 1 },
  ],
  exactAcrossTunings: true,
  tolerance: 2e-5,
  bytes: (shape) =>
    (storedBytes(upMatrix(shape)) + storedBytes(downMatrix(shape))) * chosenAtMost(shape),
  flops: ({ rows, slots, hidden, intermediate }) => 6 * rows * slots * hidden * intermediate,
  mutants: [
    { name: "rows are not normed", replace: "x[first[t] + v] * scale", with: "x[first[t] + v]" },
    { name: "nothing is rounded", replace: "if ROUNDED {", with: "if false {" },
    { name: "slots count alike", replace: "vec4f(slot_weights[pair])", with: "vec4f(1.0)" },
    {
      name: "every row has the slots of the first",
      replace: "group.y * params.slots + slot",
      with: "slot",
    },
    {
      name: "a slot is left out",
      replace: "slot < params.slots",
      with: "slot < params.slots - 1u",
    },
    { name: "nothing is added", replace: "] += combined[i]", with: "] = combined[i]" },
    {
      name: "outputs beyond the last are written",
      replace: "output[i] < params.outputs",
      with: "true",
    },
  ],

  inputs(shape, random) {
    const { rows, slots, hidden } = shape;
    const stride = strideOf(hidden);
    const { experts } = randomPairs(shape, random);
    return {
      x: randomRows({ rows, columns: hidden, stride }, random),
      norm_weight: Float32Array.from({ length: stride }, () => (0.5 + random()) / 8),
      experts: experts!,
      slot_weights: Float32Array.from({ length: rows * slots }, random),
      ...named("up", randomExperts(shape, upMatrix(shape), random)),
      ...named("down", randomExperts(shape, downMatrix(shape), random)),
    };
  },

  reference(shape, inputs) {
    const { rows, slots, hidden, intermediate, rounded, eps } = shape;
    const up = unpackExperts(shape, upMatrix(shape), unnamed("up", inputs));
    const down = unpackExperts(shape, downMatrix(shape), unnamed("down", inputs));
    const { upRow } = gateUpRows(intermediate, LANES);
    const stride = strideOf(hidden);
    const x = Float64Array.from(inputs.x!);
    for (let r = 0; r < rows; r++) {
      const row = x.subarray(r * stride, r * stride + hidden);
      const squares = row.reduce((sum, value) => sum + value * value, 0);
      const scale = 1 / Math.sqrt(squares / hidden + eps);
      const normed = row.map((value, c) => value * scale * inputs.norm_weight![c]!);
      const input = rounded ? quantizeGroups(normed) : normed;
      const combined = new Float64Array(hidden);
      for (let pair = r * slots; pair < (r + 1) * slots; pair++) {
        const expert = inputs.experts![pair]!;
        const gate = (i: number) => dot({ weight: up[expert]!, columns: hidden, row: i }, input, 0);
        const h = gatedRow(intermediate, gate, (i) => gate(upRow + i));
        if (rounded) quantizeRow(h);
        for (let n = 0; n < hidden; n++) {
          const sum = dot({ weight: down[expert]!, columns: intermediate, row: n }, h, 0);
          combined[n]! += inputs.slot_weights![pair]! * sum;
        }
      }
      combined.forEach((value, n) => {
        row[n]! += value;
      });
    }
    return { x };
  },

  bind(recorder, shape, tensors, { folded = 0, subgroups = 0, ...form }) {
    const { rows, slots, hidden, intermediate, rounded, eps } = shape;
    const { device } = recorder;
    const [hiddenStride, stride] = [strideOf(hidden), strideOf(intermediate)];
    const spare = (count: number, label: string) => allocateTensor(device, count * 4, label);
    const normed = spare(rows * hiddenStride, "normed");
    const quantized = rounded ? spare(rows * hiddenStride, "quantized") : undefined;
    const inner = spare(rows * slots * stride, "intermediate");
    const output = spare(rows * slots * hiddenStride, "output");
    const { x, norm_weight: weight, experts, slot_weights: slotWeights } = tensors;
    const layout = subgroups === 1 ? layoutFor(device) : {};
    const forms = formsOf({ tokens: 1, ...form });
    const lists = { slots, experts: experts!, sortedPairs: experts!, tiles: experts!, forms };
    const [first] = shape.slabs;
    const slab = (prefix: string, matrix: ReturnType<typeof upMatrix>) => {
      const all = expertWeights(shape, matrix, unnamed(prefix, tensors));
      const slabs = all.slabs.filter(({ expertCount }) => expertCount === first);
      return { ...all, ...layout, slabs };
    };
    const gateUp = expertGateUp(recorder, {
      ...lists,
      ...{ x: quantized ?? normed, xStride: hiddenStride },
      ...{ weights: slab("up", upMatrix(shape)), intermediate, quantize: rounded },
      ...{ out: inner, outStride: stride },
      unsorted: folded === 1 ? { x: x!, norm: { weight: weight!, eps, rounded } } : undefined,
    });
    const down = expertDown(recorder, {
      ...lists,
      ...{ x: inner, xStride: stride, weights: slab("down", downMatrix(shape)) },
      ...{ out: output, outStride: hiddenStride, segments: segments(intermediate) },
      combined: folded === 1 ? { out: x!, slotWeights: slotWeights! } : undefined,
    });
    const norm = (addend?: Parameters<typeof addNorm>[1]["addend"]) =>
      addNorm(recorder, {
        ...{ x: x!, addend, weight: weight!, normed, quantized },
        ...{ cols: hidden, stride: hiddenStride, eps },
      });
    const [before, after] =
      folded === 1
        ? []
        : [norm(), norm({ kind: "combine", y: output, weights: slotWeights!, slots })];
    return () => {
      before?.(rows);
      gateUp(rows);
      down(rows);
      after?.(rows);
    };
  },
});
