import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { PREFILL_ROW_TILE } from "../../../kernels/attention/mla/mla_prefill.ts";
import { mlaWrite } from "../../../kernels/cache/mla_write.ts";
import type { YarnScaling } from "../../../src/layers/attention/rope_scaling.ts";
import { ropeTable, softmaxScale } from "../../../src/layers/attention/rope_table.ts";
import { seeded } from "../../support/devices/gpu.ts";
import {
  absorb,
  blank,
  cut,
  decode,
  describeRows,
  fillCache,
  prefill,
  project,
  read,
  runAll,
  type Shape,
  slotOf,
  tensor,
  worst,
} from "../../support/reference/mla.ts";

const GOLDEN = "../shared/data/golden/kernels.json";

interface GoldenTensor {
  readonly shape: readonly number[];
  readonly b64: string;
}

interface GoldenMla {
  readonly config: Readonly<Record<string, number>> & {
    readonly rope_scaling: Readonly<Record<string, number>>;
  };
  readonly softmax_scale: number;
  readonly weights: Readonly<Record<string, GoldenTensor>>;
  readonly x: GoldenTensor;
  readonly y: GoldenTensor;
  readonly cache_latent: GoldenTensor;
  readonly cache_rope: GoldenTensor;
}

const floats = ({ b64 }: GoldenTensor) =>
  new Float32Array(Uint8Array.from(Buffer.from(b64, "base64")).buffer);

/** `x W^T`, on the host. */
function multiply(x: Float32Array, { shape, b64 }: GoldenTensor): Float32Array {
  const weight = floats({ shape, b64 });
  const [outputs, columns] = shape as [number, number];
  return Float32Array.from({ length: (x.length / columns) * outputs }, (_, i) => {
    const [r, n] = [Math.floor(i / outputs), i % outputs];
    let total = 0;
    for (let c = 0; c < columns; c++) total += x[r * columns + c]! * weight[n * columns + c]!;
    return total;
  });
}

const missing = !existsSync(GOLDEN);

describe.skipIf(missing)("the golden MLA layer (needs ../shared/data)", () => {
  test("mlaWrite, mlaDecode and mlaPrefill reproduce it", async () => {
    const golden: GoldenMla = JSON.parse(readFileSync(GOLDEN, "utf8")).mla;
    const { config, weights } = golden;
    const { rope_scaling: section } = config;
    const scaling: YarnScaling = {
      type: "yarn",
      factor: section.factor!,
      originalMaxPosition: section.original_max_position_embeddings!,
      betaFast: section.beta_fast!,
      betaSlow: section.beta_slow!,
      mscale: section.mscale!,
      mscaleAllDim: section.mscale_all_dim!,
    };
    const shape: Shape = {
      heads: config.num_attention_heads!,
      latent: config.kv_lora_rank!,
      nope: config.qk_nope_head_dim!,
      rope: config.qk_rope_head_dim!,
      value: config.v_head_dim!,
    };
    const { heads, latent, nope, rope } = shape;
    const count = golden.x.shape[0]!;
    const width = config.q_lora_rank!;
    const scale = softmaxScale({ nope, rope, scaling });
    expect(scale).toBeCloseTo(golden.softmax_scale, 6);
    const table = ropeTable({ theta: config.rope_theta!, dim: rope, scaling, positions: count });

    // The fused first projections: query latent, latent, rope part.
    const x = floats(golden.x);
    const queries = multiply(x, weights["q_a_proj.weight"]!);
    const entriesIn = multiply(x, weights["kv_a_proj_with_mqa.weight"]!);
    const stride = width + latent + rope;
    const a = new Float32Array(count * stride);
    for (let r = 0; r < count; r++) {
      a.set(queries.subarray(r * width, (r + 1) * width), r * stride);
      const entry = entriesIn.subarray(r * (latent + rope), (r + 1) * (latent + rope));
      a.set(entry, r * stride + width);
    }
    const rows = Array.from({ length: count }, (_, position) => ({ sequence: 0, position }));
    const blankEntries = new Float32Array(count * (latent + rope)).fill(Number.NaN);
    const cache = fillCache([blankEntries], latent + rope, { pageSize: 3, random: seeded(2) });
    const queryLatent = blank(count * width);
    await runAll((recorder) => {
      const write = mlaWrite(recorder, {
        a: tensor(a),
        aStride: stride,
        query: {
          offset: 0,
          width,
          weight: tensor(floats(weights["q_a_layernorm.weight"]!)),
          out: queryLatent,
          outStride: width,
        },
        latentOffset: width,
        latent,
        latentWeight: tensor(floats(weights["kv_a_layernorm.weight"]!)),
        ropeOffset: width + latent,
        rope,
        rows: describeRows(cache, rows).rows,
        ropeTable: tensor(table),
        cache: cache.tensor,
        cacheDtype: "f32",
        eps: config.rms_norm_eps!,
      });
      return () => write(count);
    });
    const stored = await read(cache.tensor);
    const entries = Float32Array.from(
      rows.flatMap((row) => {
        const at = slotOf(cache, row) * (latent + rope);
        return [...stored.subarray(at, at + latent + rope)];
      }),
    );
    const wantLatent = floats(golden.cache_latent);
    const wantRope = floats(golden.cache_rope);
    const wanted = rows.flatMap((_, r) => [
      ...wantLatent.subarray(r * latent, (r + 1) * latent),
      ...wantRope.subarray(r * rope, (r + 1) * rope),
    ]);
    expect(worst(entries, wanted)).toBeLessThan(2e-6);

    const query = multiply(await read(queryLatent), weights["q_b_proj.weight"]!);
    const up = floats(weights["kv_b_proj.weight"]!);
    const inputs = { shape, cache, rows, table, scale, splitLength: 128 };
    const attended = await decode(inputs, query, absorb(shape, up, query));
    const absorbedOut = multiply(project(shape, up, attended), weights["o_proj.weight"]!);
    expect(worst(absorbedOut, floats(golden.y))).toBeLessThan(1e-5);
    const tiles = cut(count, { unit: PREFILL_ROW_TILE, limit: 1, random: seeded(1) });
    const context = await prefill(inputs, { query, entries, up }, { tiles, passes: [count] });
    const expandedOut = multiply(context, weights["o_proj.weight"]!);
    expect(worst(expandedOut, floats(golden.y))).toBeLessThan(1e-5);
    expect(heads).toBe(3);
  });
});
