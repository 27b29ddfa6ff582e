import type { Recorder } from "../../src/gpu/recorder.ts";
import { allocateTensor, type Tensor } from "../../src/gpu/tensor.ts";
import { PLAIN_TUNING } from "../../src/gpu/tuning.ts";
import { defineCheck } from "../check.ts";
import { formsOf, UNSTAGED_FORMS } from "../linear/checks/check_forms.ts";
import {
  type CheckOrder,
  dot,
  IN_RUNS,
  outputsByColumns,
  randomRows,
  randomWeight,
  unpackWeight,
} from "../linear/checks/check_weights.ts";
import { linear } from "../linear/linear.ts";
import type { LinearWeight } from "../linear/linear_layout.ts";
import { subgroupsOf, type WeightDtype } from "../linear/weights/layout.ts";
import { storedBytes } from "../linear/weights/weight_cost.ts";
import { paddedRows } from "../linear/weights/weight_order.ts";
import { quantizeGroups } from "../norm/reference.ts";
import type { CacheDtype } from "./cache_kernel.ts";
import { mlaGather } from "./mla_gather.ts";
import { mlaProject } from "./mla_project.ts";
import { mlaEntryBytes, mlaWrite } from "./mla_write.ts";

interface Shape extends CheckOrder {
  readonly rows: number;
  readonly dtype: WeightDtype;
  /** Width of the query latent. */
  readonly columns: number;
  readonly outputs: number;
  readonly latent: number;
  readonly rope: number;
  readonly rounded: boolean;
  readonly eps: number;
  readonly cacheDtype: CacheDtype;
}

/** A row behind the last, which is to be left alone, has a slot and a position too. */
const slotsOf = ({ rows }: Shape) => Array.from({ length: rows + 1 }, (_, r) => 2 * (rows - r) + 1);
const positionOf = (row: number) => 3 + 5 * row;
const WORD_BYTES = 4;
const FORMS = UNSTAGED_FORMS.filter(({ tokens }) => tokens <= 4);
/** Two rows in a workgroup: the least in which they can be mixed up. */
const TWO = FORMS.findIndex(({ tokens }) => tokens === 2);

const padTo = (size: number, unit: number) => Math.ceil(size / unit) * unit;
const offsets = ({ columns, latent, rope }: Shape) => {
  const latentOffset = padTo(columns, 8);
  const width = latentOffset + latent + rope;
  const aStride = padTo(width, 4) + 4;
  return { latentOffset, ropeOffset: latentOffset + latent, width, aStride };
};
/** Behind a row's outputs there is room that stays as it was. */
const outStride = ({ outputs }: Shape) => outputs + 3;
const latentNormOf = ({ columns }: Shape) => padTo(columns, 4);

function normed(values: Float64Array, weight: ArrayLike<number>, first: number, eps: number) {
  const squares = values.reduce((sum, value) => sum + value * value, 0);
  const scale = 1 / Math.sqrt(squares / values.length + eps);
  return values.map((value, i) => value * scale * weight[first + i]!);
}

/** Query projections and cache entries of rows. Entries are read back by `mlaGather`. */
export default defineCheck<Shape>({
  name: "cache/mla_project",
  cases: [
    // Two groups of the rounding, the second a short one that ends inside a vector.
    {
      rows: 5,
      dtype: "bf16",
      columns: 205,
      outputs: 44,
      latent: 20,
      rope: 12,
      rounded: true,
      eps: 0.02,
      cacheDtype: "f32",
    },
    // A latent wider than the query latent.
    {
      rows: 2,
      dtype: "fp8",
      columns: 130,
      outputs: 37,
      latent: 132,
      rope: 8,
      rounded: false,
      eps: 0.02,
      cacheDtype: "f32",
      ...IN_RUNS,
    },
    {
      rows: 1,
      dtype: "fp8",
      columns: 1536,
      outputs: 1536,
      latent: 512,
      rope: 64,
      rounded: true,
      eps: 1e-6,
      cacheDtype: "f32",
    },
  ],
  tunings: [
    ...FORMS.map((form) => ({ folded: 1, ...form })),
    { folded: 0 },
    { folded: 1, subgroups: 1 },
  ],
  exactAcrossTunings: true,
  tolerance: 2e-5,
  bytes: (shape) => {
    const { rows, latent, rope, cacheDtype } = shape;
    const entry = 4 * (latent + rope) + mlaEntryBytes(cacheDtype, latent, rope);
    return storedBytes(outputsByColumns(shape)) + rows * entry;
  },
  flops: ({ rows, columns, outputs, latent, rope }) =>
    rows * (2 * columns * outputs + 4 * latent + 3 * rope),
  mutants: [
    { name: "eps is 0", replace: "f32(columns) + params.eps", with: "f32(columns)" },
    { name: "nothing is rounded", replace: "if ROUNDED {", with: "if false {" },
    {
      name: "the latent is normed with the query's weights",
      replace: "norm_weight[params.latent_norm / 4u + vector]",
      with: "norm_weight[vector]",
    },
    {
      name: "the latent is not scaled",
      replace: "* entry.scale",
      with: "",
    },
    {
      name: "the latent has the query's width",
      replace: "select(params.columns, params.latent, of_entry)",
      with: "params.columns",
    },
    {
      name: "the latent starts elsewhere",
      replace: "row_start(entry_row) + params.latent_offset / 4u",
      with: "row_start(entry_row)",
    },
    {
      name: "every row is the first",
      replace: "row * params.x_stride / 4u",
      with: "0u",
    },
    {
      name: "every tile is of the first rows",
      replace: "group.y * TOKENS",
      with: "0u",
    },
    {
      name: "every row is written where the first is",
      replace: "row * params.out_stride",
      with: "0u",
    },
    {
      name: "queries behind the last row are written",
      replace: "if first_row + t < params.rows",
      with: "if true",
      tuning: TWO,
    },
    {
      name: "entries behind the last row are written",
      replace: "if of_entry && entry_row >= params.rows { return; }",
      with: "",
      tuning: TWO,
    },
    {
      name: "every entry is of the first row's latent",
      replace: "x[entry.start + params.latent_offset",
      with: "x[params.latent_offset",
    },
    {
      name: "every entry is of the first row's rope part",
      replace: "x[entry.start + column",
      with: "x[column",
    },
    {
      name: "an entry is scaled as a query would be",
      replace: "select(invocation / ROW_SHARERS, 0u, of_entry)",
      with: "invocation / ROW_SHARERS",
      tuning: TWO,
    },
    {
      name: "rows of a workgroup share their squares",
      replace: "first = t * NORM_LANES",
      with: "first = 0u",
      tuning: TWO,
    },
    {
      name: "rows of a workgroup share their largest magnitudes",
      replace: "t * ROW_GROUPS + ",
      with: "",
      tuning: TWO,
    },
    {
      name: "the last workgroup alone writes entries",
      replace: "first_row + group.x - groups",
      with: "first_row",
      tuning: TWO,
    },
    {
      name: "pairs are swapped",
      replace: "select(value.xy, value.zw, pair % 2u == 1u)",
      with: "select(value.zw, value.xy, pair % 2u == 1u)",
    },
    { name: "the rope part starts elsewhere", replace: "params.rope_offset + 2u", with: "2u" },
    { name: "the position is ignored", replace: "entry.row.y *", with: "0u *" },
    { name: "the slot is ignored", replace: "entry.row.z *", with: "0u *" },
    {
      name: "outputs beyond the last are written",
      replace: "if output[i] < params.outputs",
      with: "if true",
    },
    {
      name: "invocations without rows write",
      replace: "if !holds_sums(invocation) { return; }",
      with: "",
      tuning: FORMS.findIndex(({ split }) => split > 1),
    },
  ],

  inputs(shape, random) {
    const { rows, latent, rope } = shape;
    const { width, aStride } = offsets(shape);
    const { words, scales } = randomWeight(outputsByColumns(shape), random);
    const slots = slotsOf(shape);
    return {
      a: randomRows({ rows: rows + 1, columns: width, stride: aStride }, random),
      words,
      ...(shape.dtype === "fp8" && { scales }),
      norms: Float32Array.from(
        { length: latentNormOf(shape) + padTo(latent, 4) },
        () => 0.5 + random(),
      ),
      rows: Uint32Array.from(slots.flatMap((slot, row) => [0, positionOf(row), slot, 0])),
      rope_table: Float32Array.from(
        { length: (positionOf(rows) + 1) * rope },
        () => random() * 2 - 1,
      ),
      key_slots: Uint32Array.from(slots),
    };
  },

  reference(shape, { a, words, scales = new Uint32Array(), norms, rope_table }) {
    const { rows, columns, outputs, latent, rope, rounded, eps } = shape;
    const { latentOffset, ropeOffset, aStride } = offsets(shape);
    const weight = unpackWeight(outputsByColumns(shape), {
      words: words as Uint32Array,
      scales: scales as Uint32Array,
    });
    const part = (first: number, count: number) =>
      Float64Array.from({ length: count }, (_, i) => a![first + i]!);
    // Beyond outputs and rows the poison stays, and slots are as they were.
    const out = new Float64Array((rows + 1) * outStride(shape)).fill(Number.NaN);
    const latents = new Float64Array((rows + 1) * latent);
    const ropes = new Float64Array((rows + 1) * rope);
    for (let row = 0; row < rows; row++) {
      const start = row * aStride;
      const query = normed(part(start, columns), norms!, 0, eps);
      const x = rounded ? quantizeGroups(query) : query;
      for (let n = 0; n < outputs; n++) {
        out[row * outStride(shape) + n] = dot({ weight, columns, row: n }, x, 0);
      }
      const own = part(start + latentOffset, latent);
      latents.set(normed(own, norms!, latentNormOf(shape), eps), row * latent);
      for (let i = 0; i < rope; i += 2) {
        const [first, second] = part(start + ropeOffset + i, 2) as unknown as [number, number];
        const turn = positionOf(row) * rope + i;
        const [cosine, sine] = [rope_table![turn]!, rope_table![turn + 1]!];
        ropes[row * rope + i] = first * cosine - second * sine;
        ropes[row * rope + i + 1] = first * sine + second * cosine;
      }
    }
    return { out, latents, ropes };
  },

  bind(recorder, shape, tensors, { folded = 0, subgroups = 0, ...form }) {
    const { rows: count, outputs, latent, rope, cacheDtype } = shape;
    const { device } = recorder;
    const slots = 1 + Math.max(...slotsOf(shape));
    const cache = allocateTensor(device, slots * (latent + rope) * WORD_BYTES, "cache");
    const weight = {
      ...(subgroups === 1 && subgroupsOf(device)),
      tuning: { ...PLAIN_TUNING, rowForms: formsOf(form) },
      ...outputsByColumns(shape),
      rowsPadded: paddedRows(outputs, outputsByColumns(shape)),
      words: tensors.words!,
      ...(tensors.scales && { scales: tensors.scales }),
    };
    const gather = mlaGather(recorder, {
      keySlots: tensors.key_slots!,
      cache,
      cacheDtype,
      latents: tensors.latents!,
      latentStride: latent,
      ropes: tensors.ropes!,
      latent,
      rope,
    });
    const bindProject = folded === 1 ? bindFolded : bindApart;
    const project = bindProject(recorder, { shape, tensors, cache, weight });
    return () => {
      project(count);
      gather(count + 1);
    };
  },
});

interface ProjectTensors {
  readonly shape: Shape;
  readonly tensors: Readonly<Record<string, Tensor>>;
  readonly cache: Tensor;
  readonly weight: LinearWeight;
}

/** What the kernel and the launches that it stands for are both told of rows and entries. */
function entryOf({ shape, tensors, cache }: ProjectTensors) {
  const { latent, rope, eps, cacheDtype } = shape;
  const { latentOffset, ropeOffset, aStride } = offsets(shape);
  return {
    a: tensors.a!,
    aStride,
    latentOffset,
    latent,
    ropeOffset,
    rope,
    rows: tensors.rows!,
    ropeTable: tensors.rope_table!,
    cache,
    cacheDtype,
    eps,
  };
}

/** The kernel that is checked. */
function bindFolded(recorder: Recorder, given: ProjectTensors): (rows: number) => void {
  const { shape, tensors, weight } = given;
  const { record } = mlaProject(recorder, {
    ...entryOf(given),
    weight,
    norms: tensors.norms!,
    latentNorm: latentNormOf(shape),
    rounded: shape.rounded,
    query: tensors.out!,
    queryStride: outStride(shape),
  });
  return record;
}

/** The launches whose bits it has. */
function bindApart(recorder: Recorder, given: ProjectTensors): (rows: number) => void {
  const { shape, tensors, weight } = given;
  const { rows: count, columns, latent, rounded } = shape;
  const stride = padTo(columns, 4);
  const allocate = (length: number, label: string) =>
    allocateTensor(recorder.device, length * WORD_BYTES, label);
  const query = allocate(count * stride, "query latent");
  // A binding starts at a multiple of 256 bytes, so the weights get buffers of their own.
  const queryNorm = allocate(columns, "norm");
  const latentNorm = allocate(latent, "norm");
  const write = mlaWrite(recorder, {
    ...entryOf(given),
    latentWeight: latentNorm,
    query: {
      offset: 0,
      width: columns,
      weight: queryNorm,
      out: query,
      outStride: stride,
      quantize: rounded,
    },
  });
  const project = linear(recorder, {
    x: query,
    xStride: stride,
    weight,
    out: tensors.out!,
    outStride: outStride(shape),
  });
  return (rows) => {
    const norms = tensors.norms!;
    const ofLatent = { ...norms, offset: latentNormOf(shape) * WORD_BYTES };
    recorder.copy(norms, queryNorm, columns * WORD_BYTES);
    recorder.copy(ofLatent, latentNorm, latent * WORD_BYTES);
    write(rows);
    project(rows);
  };
}
