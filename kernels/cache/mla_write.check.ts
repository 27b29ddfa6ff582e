import { decodeBf16, encodeBf16 } from "../../src/dtype.ts";
import { defineCheck, type HostArrays } from "../check.ts";
import type { CacheDtype } from "./cache_kernel.ts";
import { fp8Scale, isFp8Dtype, LATENT_RUN, nearTieOfFp8, roundFp8Latent } from "./host_fp8.ts";
import { mlaGather } from "./mla_gather.ts";
import { mlaFp8EntryBytes, mlaWrite } from "./mla_write.ts";

interface Shape {
  readonly rows: number;
  /** 0: no query. */
  readonly query: number;
  readonly latent: number;
  readonly rope: number;
  readonly scale: number;
  readonly eps: number;
  readonly quantize: boolean;
  readonly dtype: CacheDtype;
}

const PAD = 4;
const GROUP = 128;
const POSITIONS = 50;

const offsets = ({ query, latent, rope }: Shape) => {
  const ropeOffset = PAD;
  const latentOffset = ropeOffset + rope + PAD;
  const queryOffset = latentOffset + latent + PAD;
  return { ropeOffset, latentOffset, queryOffset, stride: queryOffset + query + PAD };
};

/** True where an error of the last bits of an f32 could round to the other neighbour. */
function nearTieOfBf16(value: number): boolean {
  const bits = new Uint32Array(Float32Array.of(value).buffer)[0]!;
  return Math.abs((bits & 0xffff) - 0x8000) < 64;
}

/** The nearest E4M3 value of a magnitude up to 448, ties to even. */
function e4m3(magnitude: number): number {
  const exponent = Math.max(Math.floor(Math.log2(magnitude)), -6);
  const steps = magnitude / 2 ** (exponent - 3);
  const below = Math.floor(steps);
  const up = steps - below > 0.5 || (steps - below === 0.5 && below % 2 === 1);
  return Math.min((up ? below + 1 : below) * 2 ** (exponent - 3), 448);
}

const nearTieOfE4m3 = (magnitude: number) =>
  e4m3(magnitude * (1 + 1e-5)) !== e4m3(magnitude * (1 - 1e-5));

/** 1 / sqrt(mean of squares + eps) of `width` elements. */
function inverseRms(a: ArrayLike<number>, at: number, { width, eps }: Record<string, number>) {
  let sum = 0;
  for (let c = 0; c < width!; c++) sum += a[at + c]! ** 2;
  return 1 / Math.sqrt(sum / width! + eps!);
}

/** The normed query of one row. */
function normedQuery(shape: Shape, { a, q_weight }: HostArrays, r: number): number[] {
  const { queryOffset, stride } = offsets(shape);
  const at = r * stride + queryOffset;
  const scale = inverseRms(a!, at, { width: shape.query, eps: shape.eps });
  return Array.from({ length: shape.query }, (_, c) => a![at + c]! * scale * q_weight![c]!);
}

/** The cache entry of one row before it is rounded. */
function entry(shape: Shape, inputs: HostArrays, r: number): number[] {
  const { a, kv_weight, rows, rope_table } = inputs;
  const { latent, rope, eps } = shape;
  const { ropeOffset, latentOffset, stride } = offsets(shape);
  const at = r * stride;
  const scale = inverseRms(a!, at + latentOffset, { width: latent, eps });
  const values: number[] = [];
  for (let c = 0; c < latent; c++) values.push(a![at + latentOffset + c]! * scale * kv_weight![c]!);
  for (let i = 0; i < rope; i += 2) {
    const turn = rows![r * 4 + 1]! * rope + i;
    const [x, y] = [a![at + ropeOffset + i]!, a![at + ropeOffset + i + 1]!];
    const [cos, sin] = [rope_table![turn]!, rope_table![turn + 1]!];
    values.push(x * cos - y * sin, x * sin + y * cos);
  }
  return values;
}

const steps = (values: readonly number[]) => {
  const largest: number[] = [];
  values.forEach((v, c) => {
    const g = Math.floor(c / GROUP);
    largest[g] = Math.max(largest[g] ?? 1e-4, Math.abs(v));
  });
  return largest.map((amax) => amax / 448);
};

function nearTieOfRun({ latent, dtype }: Shape, written: readonly number[], i: number): boolean {
  if (!isFp8Dtype(dtype)) return false;
  const first = i - (i % LATENT_RUN);
  const run = written.slice(first, Math.min(latent, first + LATENT_RUN));
  return nearTieOfFp8(written[i]! / fp8Scale(run, dtype), dtype);
}

const gatheredLatents = (rows: number, { latent, rope }: Shape) => ({
  latents: new Float64Array(rows * latent),
  ropes: new Float64Array(rows * rope),
});

export default defineCheck<Shape>({
  name: "cache/mla_write",
  cases: [
    // Two groups, the second one short; latent and rope of odd pair counts.
    {
      rows: 3,
      query: 200,
      latent: 22,
      rope: 6,
      scale: 1,
      eps: 1e-6,
      quantize: true,
      dtype: "bf16",
    },
    { rows: 2, query: 70, latent: 20, rope: 8, scale: 1, eps: 1e-6, quantize: false, dtype: "f32" },
    // No query; eps decides the answer.
    {
      rows: 4,
      query: 0,
      latent: 24,
      rope: 8,
      scale: 1e-3,
      eps: 1e-5,
      quantize: false,
      dtype: "f32",
    },
    { rows: 1, query: 3, latent: 2, rope: 2, scale: 1, eps: 1e-6, quantize: true, dtype: "bf16" },
    // FP8, read back: runs of 128 and of 28; a short one, E5M2.
    {
      rows: 3,
      query: 20,
      latent: 156,
      rope: 8,
      scale: 1,
      eps: 1e-6,
      quantize: false,
      dtype: "fp8_e4m3",
    },
    {
      rows: 2,
      query: 0,
      latent: 24,
      rope: 4,
      scale: 1,
      eps: 1e-6,
      quantize: false,
      dtype: "fp8_e5m2",
    },
    // The 671B model.
    {
      rows: 64,
      query: 1536,
      latent: 512,
      rope: 64,
      scale: 1,
      eps: 1e-6,
      quantize: true,
      dtype: "bf16",
    },
  ],
  tunings: [{}],
  tolerance: 2e-6,
  bytes: ({ rows, query, latent, rope, dtype }) => {
    const plain = (latent + rope) * (dtype === "bf16" ? 2 : 4);
    const stored = isFp8Dtype(dtype) ? mlaFp8EntryBytes(latent, rope) : plain;
    return rows * (8 * query + 4 * (latent + rope) + stored) + 4 * (query + latent);
  },
  flops: ({ rows, query, latent, rope }) => rows * (4 * (query + latent) + 3 * rope),
  mutants: [
    { name: "eps is dropped", replace: "+ params.eps", with: "", case: 2 },
    { name: "the query's weight is dropped", replace: "* q_weight[c]", with: "" },
    {
      name: "the latent's weight is dropped",
      replace: "* vec2f(kv_weight",
      with: "/ vec2f(kv_weight",
    },
    { name: "every group takes the first one's scale", replace: "c / GROUP", with: "0u" },
    {
      name: "activations are not rounded",
      replace: "value = round_e4m3(value",
      with: "value = (value",
    },
    {
      name: "the last columns are not squared",
      replace: "c < width; c",
      with: "c < width - 1u; c",
    },
    {
      name: "rows are read too close",
      replace: "* params.a_stride",
      with: "* (params.a_stride - 1u)",
    },
    {
      name: "rows are written too close",
      replace: "* params.q_stride",
      with: "* params.query_width",
    },
    { name: "the query starts elsewhere", replace: "params.query_offset,", with: "0u," },
    { name: "the latent starts elsewhere", replace: "params.latent_offset,", with: "0u," },
    { name: "the rope part starts elsewhere", replace: "+ params.rope_offset", with: "" },
    { name: "the position is ignored", replace: "entry.row.y *", with: "0u *" },
    {
      name: "the slot is ignored",
      replace: "entry.row.z *",
      with: "entry.start / params.a_stride *",
    },
    { name: "the rotation turns back", replace: "-(pair.y * turn.y)", with: "pair.y * turn.y" },
    {
      name: "the rope part is not written",
      replace: "pair < pairs;",
      with: "pair < latent_pairs;",
    },
    {
      name: "every run has the first one's scale",
      replace: "atomicLoad(&largest_of_run[run])",
      with: "atomicLoad(&largest_of_run[0u])",
      case: 4,
    },
    { name: "the last scale is not written", replace: "words + run]", with: "words]", case: 4 },
    { name: "FP8 ignores the slot", replace: "entry.row.z *", with: "0u *", case: 4 },
    {
      name: "the rope part lies on the scales",
      replace: "words + runs + pair]",
      with: "words + pair]",
      case: 4,
    },
    {
      name: "no barrier before the scales are used",
      replace: "}\n  }\n  workgroupBarrier();",
      with: "}\n  }",
      case: 4,
    },
    { name: "FP8 is cut off", replace: "((1u << (CODE_SHIFT - 1u)) - 1u)", with: "(0u)", case: 4 },
    { name: "E5M2 is rounded as E4M3", replace: "BITS = 2u", with: "BITS = 3u", case: 5 },
    { name: "BF16 is cut off", replace: "bits + 0x7fffu + ((bits >> 16u) & 1u)", with: "bits" },
    {
      name: "no barrier before the tree",
      replace: "= sum;\n  workgroupBarrier();",
      with: "= sum;",
    },
    {
      name: "some sums of squares are left out",
      replace: "i < (half + 1u) * ENTRY_LANES; i += 4u",
      with: "i < (half + 1u) * ENTRY_LANES - 4u; i += 4u",
    },
  ],

  inputs(shape, random) {
    const { rows, query, latent, rope, scale, quantize, dtype } = shape;
    const { ropeOffset, latentOffset, queryOffset, stride } = offsets(shape);
    const draw = () => (random() * 2 - 1) * scale;
    // What the kernel must not read is NaN.
    const a = new Float32Array(rows * stride).fill(Number.NaN);
    const inputs = {
      a,
      q_weight: Float32Array.from({ length: Math.max(query, 1) }, () => 0.5 + random()),
      kv_weight: Float32Array.from({ length: latent }, () => 0.5 + random()),
      rows: new Uint32Array(rows * 4),
      rope_table: Float32Array.from({ length: POSITIONS * rope }, () => random() * 2 - 1),
    };
    for (let r = 0; r < rows; r++) {
      for (let c = 0; c < rope; c++) a[r * stride + ropeOffset + c] = draw();
      for (let c = 0; c < latent; c++) a[r * stride + latentOffset + c] = draw();
      for (let c = 0; c < query; c++) a[r * stride + queryOffset + c] = draw();
      // Slots in an order of their own, with holes.
      inputs.rows.set([7, Math.floor(random() * POSITIONS), 2 * (rows - r) - 1, 9], r * 4);
    }
    // Draw again what lies so close to a tie that f32 and f64 may round it differently.
    for (let again = true; again; ) {
      again = false;
      for (let r = 0; r < rows; r++) {
        const written = entry(shape, inputs, r);
        written.forEach((value, i) => {
          if (
            !(i < latent && isFp8Dtype(dtype)
              ? nearTieOfRun(shape, written, i)
              : nearTieOfBf16(value))
          )
            return;
          again = true;
          if (i < latent) inputs.kv_weight[i] = 0.5 + random();
          else a[r * stride + ropeOffset + (i - latent)] = draw();
        });
        if (!quantize) continue;
        const normed = normedQuery(shape, inputs, r);
        const step = steps(normed);
        normed.forEach((value, c) => {
          const magnitude = Math.abs(value) / step[Math.floor(c / GROUP)]!;
          if (magnitude > 447 || !nearTieOfE4m3(magnitude)) return;
          again = true;
          inputs.q_weight[c] = 0.5 + random();
        });
      }
    }
    if (!isFp8Dtype(dtype)) return inputs;
    // Compared is what is read back; the scales themselves are f32 and may be a bit off.
    const words = (2 * rows * mlaFp8EntryBytes(latent, rope)) / 4;
    return {
      ...inputs,
      entries: new Uint32Array(words).fill(0xffffffff),
      key_slots: Uint32Array.from({ length: rows }, (_, r) => inputs.rows[r * 4 + 2]!),
    };
  },

  reference(shape, inputs) {
    const { rows, query, latent, rope, quantize, dtype } = shape;
    const width = latent + rope;
    const slots = 2 * rows;
    const values = new Float64Array(slots * width).fill(Number.NaN);
    const words = new Uint32Array((slots * width) / 2).fill(0xdeadbeef);
    const gathered = gatheredLatents(rows, shape);
    const q_out = new Float64Array(rows * (query + PAD)).fill(Number.NaN);
    for (let r = 0; r < rows; r++) {
      const at = inputs.rows![r * 4 + 2]! * width;
      const written = entry(shape, inputs, r);
      values.set(written, at);
      if (isFp8Dtype(dtype)) {
        const kept = roundFp8Latent(Float64Array.from(written.slice(0, latent)), dtype);
        gathered.latents.set(kept, r * latent);
        gathered.ropes.set(
          written.slice(latent).map((x) => decodeBf16(encodeBf16(x))),
          r * rope,
        );
      }
      for (let i = 0; i < width; i += 2) {
        words[(at + i) / 2] = (encodeBf16(written[i]!) | (encodeBf16(written[i + 1]!) << 16)) >>> 0;
      }
      const normed = normedQuery(shape, inputs, r);
      const step = steps(normed);
      normed.forEach((value, c) => {
        const s = step[Math.floor(c / GROUP)]!;
        const rounded = Math.sign(value) * e4m3(Math.abs(value) / s) * s;
        q_out[r * (query + PAD) + c] = quantize ? rounded : value;
      });
    }
    if (isFp8Dtype(dtype)) return { q_out, ...gathered };
    return { q_out, cache: dtype === "bf16" ? words : values };
  },

  bind(recorder, shape, tensors) {
    const { rows, query, latent, rope, eps, quantize, dtype } = shape;
    const { a, q_weight, kv_weight, rope_table, q_out, cache = tensors.entries } = tensors;
    const { ropeOffset, latentOffset, queryOffset, stride } = offsets(shape);
    const projected = {
      offset: queryOffset,
      width: query,
      weight: q_weight!,
      out: q_out!,
      outStride: query + PAD,
      quantize,
    };
    const launch = mlaWrite(recorder, {
      a: a!,
      aStride: stride,
      ...(query > 0 && { query: projected }),
      latentOffset,
      latent,
      latentWeight: kv_weight!,
      ropeOffset,
      rope,
      rows: tensors.rows!,
      ropeTable: rope_table!,
      cache: cache!,
      cacheDtype: dtype,
      eps,
    });
    if (!isFp8Dtype(dtype)) return () => launch(rows);
    const gather = mlaGather(recorder, {
      cache: cache!,
      cacheDtype: dtype,
      keySlots: tensors.key_slots!,
      latents: tensors.latents!,
      ropes: tensors.ropes!,
      latent,
      rope,
    });
    return () => {
      launch(rows);
      gather(rows);
    };
  },
});
