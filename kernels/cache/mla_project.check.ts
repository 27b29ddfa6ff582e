import { allocateTensor } from "../../src/gpu/tensor.ts";
import { PLAIN_TUNING } from "../../src/gpu/tuning.ts";
import { defineCheck } from "../check.ts";
import { formsOf, ONE_ROW_FORMS } from "../linear/check_forms.ts";
import {
  CHECK_LANES,
  dot,
  outputsByColumns,
  randomRows,
  randomWeight,
  unpackWeight,
} from "../linear/check_weights.ts";
import { layoutFor, paddedRows, type WeightDtype } from "../linear/layout.ts";
import { linear } from "../linear/linear.ts";
import { storedBytes } from "../linear/weight_cost.ts";
import { quantizeGroups } from "../norm/reference.ts";
import type { CacheDtype } from "./cache_kernel.ts";
import { mlaGather } from "./mla_gather.ts";
import { mlaProject } from "./mla_project.ts";
import { mlaEntryBytes, mlaWrite } from "./mla_write.ts";

interface Shape {
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

const lanes = CHECK_LANES;
const SLOTS = 3;
const SLOT = 2;
const POSITION = 7;

const offsets = ({ columns, latent, rope }: Shape) => {
  const latentOffset = paddedRows(columns, 8);
  return { latentOffset, ropeOffset: latentOffset + latent, width: latentOffset + latent + rope };
};
const latentNormOf = ({ columns }: Shape) => paddedRows(columns, 4);

function normed(values: Float64Array, weight: ArrayLike<number>, first: number, eps: number) {
  const squares = values.reduce((sum, value) => sum + value * value, 0);
  const scale = 1 / Math.sqrt(squares / values.length + eps);
  return values.map((value, i) => value * scale * weight[first + i]!);
}

/** The query projection and the cache entry of one row. The entry is read back by `mlaGather`. */
export default defineCheck<Shape>({
  name: "cache/mla_project",
  cases: [
    // Two groups of the rounding, the second a short one that ends inside a vector.
    {
      ...{ dtype: "fp8", columns: 205, outputs: 44, latent: 20, rope: 12 },
      ...{ rounded: true, eps: 0.02, cacheDtype: "f32" },
    },
    // A latent wider than the query latent.
    {
      ...{ dtype: "bf16", columns: 64, outputs: 37, latent: 132, rope: 8 },
      ...{ rounded: false, eps: 0.02, cacheDtype: "f32" },
    },
    {
      ...{ dtype: "fp8", columns: 1536, outputs: 1536, latent: 512, rope: 64 },
      ...{ rounded: true, eps: 1e-6, cacheDtype: "f32" },
    },
  ],
  tunings: [
    ...ONE_ROW_FORMS.map((form) => ({ folded: 1, ...form })),
    { folded: 0 },
    { folded: 1, subgroups: 1 },
  ],
  exactAcrossTunings: true,
  tolerance: 2e-5,
  bytes: (shape) => {
    const { latent, rope, cacheDtype } = shape;
    const entry = 4 * (latent + rope) + mlaEntryBytes(cacheDtype, latent, rope);
    return storedBytes(outputsByColumns(shape)) + entry;
  },
  flops: ({ columns, outputs, latent, rope }) => 2 * columns * outputs + 4 * latent + 3 * rope,
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
      replace: "norm_scale(params.latent, 0u)",
      with: "norm_scale(params.columns, 0u)",
    },
    {
      name: "the latent starts elsewhere",
      replace: "add_squares(params.latent_offset / 4u",
      with: "add_squares(0u",
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
      tuning: ONE_ROW_FORMS.findIndex(({ split }) => split > 1),
    },
  ],

  inputs(shape, random) {
    const { latent, rope } = shape;
    const { width } = offsets(shape);
    const { words, scales } = randomWeight(outputsByColumns(shape), random);
    return {
      a: randomRows({ rows: 1, columns: width, stride: paddedRows(width, 4) }, random),
      words,
      ...(shape.dtype === "fp8" && { scales }),
      norms: Float32Array.from(
        { length: latentNormOf(shape) + paddedRows(latent, 4) },
        () => 0.5 + random(),
      ),
      rows: Uint32Array.of(0, POSITION, SLOT, 0),
      rope_table: Float32Array.from({ length: (POSITION + 1) * rope }, () => random() * 2 - 1),
      key_slots: Uint32Array.of(SLOT),
    };
  },

  reference(shape, { a, words, scales = new Uint32Array(), norms, rope_table }) {
    const { columns, outputs, latent, rope, rounded, eps } = shape;
    const { latentOffset, ropeOffset } = offsets(shape);
    const weight = unpackWeight(outputsByColumns(shape), {
      words: words as Uint32Array,
      scales: scales as Uint32Array,
    });
    const part = (first: number, count: number) =>
      Float64Array.from({ length: count }, (_, i) => a![first + i]!);
    const query = normed(part(0, columns), norms!, 0, eps);
    const x = rounded ? quantizeGroups(query) : query;
    // Beyond the outputs the poison stays.
    const out = new Float64Array(outputs + 3).fill(Number.NaN);
    for (let n = 0; n < outputs; n++) out[n] = dot({ weight, columns, row: n }, x, 0);
    const latents = normed(part(latentOffset, latent), norms!, latentNormOf(shape), eps);
    const ropes = new Float64Array(rope);
    for (let i = 0; i < rope; i += 2) {
      const [first, second] = part(ropeOffset + i, 2) as unknown as [number, number];
      const turn = POSITION * rope + i;
      const [cosine, sine] = [rope_table![turn]!, rope_table![turn + 1]!];
      ropes[i] = first * cosine - second * sine;
      ropes[i + 1] = first * sine + second * cosine;
    }
    return { out, latents, ropes };
  },

  bind(recorder, shape, tensors, { folded = 0, subgroups = 0, ...form }) {
    const { columns, outputs, latent, rope, rounded, eps, cacheDtype } = shape;
    const { device } = recorder;
    const { latentOffset, ropeOffset, width } = offsets(shape);
    const { a, words, scales, norms, rows, rope_table, key_slots, out, latents, ropes } = tensors;
    const cache = allocateTensor(device, SLOTS * (latent + rope) * 4, "cache");
    const weight = {
      ...(subgroups === 1 && layoutFor(device)),
      tuning: { ...PLAIN_TUNING, rowForms: formsOf({ tokens: 1, ...form }) },
      ...outputsByColumns(shape),
      rowsPadded: paddedRows(outputs, lanes),
      words: words!,
      ...(scales && { scales }),
    };
    const entry = {
      ...{ a: a!, latentOffset, latent, ropeOffset, rope, rows: rows! },
      ...{ ropeTable: rope_table!, cache, cacheDtype, eps },
    };
    const gather = mlaGather(recorder, {
      ...{ keySlots: key_slots!, cache, cacheDtype, latents: latents!, latentStride: latent },
      ...{ ropes: ropes!, latent, rope },
    });
    if (folded === 1) {
      const project = mlaProject(recorder, {
        ...{ ...entry, weight, norms: norms!, latentNorm: latentNormOf(shape) },
        ...{ rounded, query: out! },
      });
      return () => {
        project();
        gather(1);
      };
    }
    const stride = paddedRows(columns, 4);
    const query = allocateTensor(device, stride * 4, "query latent");
    // A binding starts at a multiple of 256 bytes, so the weights get buffers of their own.
    const own = (first: number, count: number) => {
      const tensor = allocateTensor(device, count * 4, "norm");
      const encoder = device.createCommandEncoder();
      encoder.copyBufferToBuffer(norms!.buffer, first * 4, tensor.buffer, 0, count * 4);
      device.queue.submit([encoder.finish()]);
      return tensor;
    };
    const write = mlaWrite(recorder, {
      ...entry,
      aStride: width,
      latentWeight: own(latentNormOf(shape), latent),
      query: {
        ...{ offset: 0, width: columns, weight: own(0, columns) },
        ...{ out: query, outStride: stride, quantize: rounded },
      },
    });
    const project = linear(recorder, {
      ...{ x: query, xStride: stride, weight },
      ...{ out: out!, outStride: outputs },
    });
    return () => {
      write(1);
      project(1);
      gather(1);
    };
  },
});
