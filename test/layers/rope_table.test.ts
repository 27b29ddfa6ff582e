import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  inverseFrequencies,
  ropeTable,
  softmaxScale,
  type YarnScaling,
} from "../../src/layers/rope_table.ts";

const GOLDEN = "../shared/data/golden/kernels.json";

interface GoldenTensor {
  readonly shape: readonly number[];
  readonly b64: string;
}

interface GoldenRope {
  readonly name: string;
  readonly dim: number;
  readonly config: {
    readonly rope_theta: number;
    readonly rope_scaling?: Readonly<Record<string, number | string>>;
  };
  readonly inv_freq: readonly number[];
  readonly cos_sin_factor: number;
  readonly positions: readonly number[];
  readonly x: GoldenTensor;
  readonly y_interleaved: GoldenTensor;
  readonly softmax_scale_factor?: number;
}

function floats({ b64 }: GoldenTensor): Float32Array {
  const bytes = Uint8Array.from(Buffer.from(b64, "base64"));
  return new Float32Array(bytes.buffer);
}

function yarn({ config }: GoldenRope): YarnScaling | undefined {
  const scaling = config.rope_scaling;
  if (scaling === undefined) return undefined;
  return {
    factor: Number(scaling.factor),
    originalMaxPosition: Number(scaling.original_max_position_embeddings),
    betaFast: Number(scaling.beta_fast ?? 32),
    betaSlow: Number(scaling.beta_slow ?? 1),
    mscale: Number(scaling.mscale ?? 1),
    mscaleAllDim: Number(scaling.mscale_all_dim ?? 0),
  };
}

const missing = !existsSync(GOLDEN);
const cases: GoldenRope[] = missing
  ? []
  : JSON.parse(readFileSync(GOLDEN, "utf8")).rope.filter(
      ({ config }: GoldenRope) => config.rope_scaling?.rope_type !== "llama3",
    );

describe.skipIf(missing)("ropeTable against the golden cases (needs ../shared/data)", () => {
  test.each(cases)("$name", (golden) => {
    const { dim, config, positions } = golden;
    const options = { theta: config.rope_theta, dim, scaling: yarn(golden) };
    const frequencies = inverseFrequencies(options);
    expect([...frequencies]).toEqual(golden.inv_freq.map(Math.fround));
    const table = ropeTable({ ...options, positions: Math.max(...positions) + 1 });
    expect(table[0]).toBeCloseTo(golden.cos_sin_factor, 6);
    const x = floats(golden.x);
    const want = floats(golden.y_interleaved);
    const perPosition = x.length / positions.length;
    let worst = 0;
    for (let i = 0; i < x.length; i += 2) {
      const position = positions[Math.floor(i / perPosition)]!;
      const at = position * dim + (i % dim);
      const [cos, sin] = [table[at]!, table[at + 1]!];
      worst = Math.max(worst, Math.abs(x[i]! * cos - x[i + 1]! * sin - want[i]!));
      worst = Math.max(worst, Math.abs(x[i]! * sin + x[i + 1]! * cos - want[i + 1]!));
    }
    expect(worst).toBeLessThanOrEqual(1e-6);
  });

  test.each(cases.filter((golden) => golden.softmax_scale_factor !== undefined))(
    "softmaxScale: $name",
    (golden) => {
      const scale = softmaxScale({ nope: 16, rope: 9, scaling: yarn(golden) });
      expect(scale * 5).toBeCloseTo(golden.softmax_scale_factor!, 6);
    },
  );
});

test("softmaxScale without scaling is the inverse root of the key width", () => {
  expect(softmaxScale({ nope: 48, rope: 16 })).toBe(0.125);
});

test("ropeTable starts with cosine 1 and sine 0", () => {
  expect([...ropeTable({ theta: 10000, dim: 4, positions: 1 })]).toEqual([1, 0, 1, 0]);
});
