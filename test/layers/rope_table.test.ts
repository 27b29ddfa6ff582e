import { existsSync, readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import {
  inverseFrequencies,
  type RopeScaling,
  type YarnScaling,
} from "../../src/layers/attention/rope_scaling.ts";
import { ropeTable, softmaxScale } from "../../src/layers/attention/rope_table.ts";

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
  readonly y_half: GoldenTensor;
  readonly softmax_scale_factor?: number;
}

function floats({ b64 }: GoldenTensor): Float32Array {
  const bytes = Uint8Array.from(Buffer.from(b64, "base64"));
  return new Float32Array(bytes.buffer);
}

function scalingOf({ config }: GoldenRope): RopeScaling | undefined {
  const scaling = config.rope_scaling;
  if (scaling === undefined) return undefined;
  const factor = Number(scaling.factor);
  const originalMaxPosition = Number(scaling.original_max_position_embeddings);
  if (scaling.rope_type === "llama3") {
    return {
      type: "llama3",
      factor,
      originalMaxPosition,
      lowFrequencyFactor: Number(scaling.low_freq_factor),
      highFrequencyFactor: Number(scaling.high_freq_factor),
    };
  }
  return {
    type: "yarn",
    factor,
    originalMaxPosition,
    betaFast: Number(scaling.beta_fast ?? 32),
    betaSlow: Number(scaling.beta_slow ?? 1),
    mscale: Number(scaling.mscale ?? 1),
    mscaleAllDim: Number(scaling.mscale_all_dim ?? 0),
  };
}

const missing = !existsSync(GOLDEN);
const cases: GoldenRope[] = missing ? [] : JSON.parse(readFileSync(GOLDEN, "utf8")).rope;

describe.skipIf(missing)("ropeTable against the golden cases (needs ../shared/data)", () => {
  test.each(cases)("$name", (golden) => {
    const { dim, config, positions } = golden;
    const scaling = scalingOf(golden);
    const rows = Math.max(...positions) + 1;
    const options = { theta: config.rope_theta, dim, scaling, positions: rows };
    const frequencies = inverseFrequencies(options);
    expect([...frequencies]).toEqual(golden.inv_freq.map(Math.fround));
    const table = ropeTable(options);
    expect(table[0]).toBeCloseTo(golden.cos_sin_factor, 6);
    const x = floats(golden.x);
    const vectors = x.length / dim;
    const layouts = [
      { want: floats(golden.y_interleaved), first: (pair: number) => 2 * pair, step: 1 },
      { want: floats(golden.y_half), first: (pair: number) => pair, step: dim / 2 },
    ];
    for (const { want, first, step } of layouts) {
      let worst = 0;
      for (let vector = 0; vector < vectors; vector++) {
        const position = positions[Math.floor((vector * positions.length) / vectors)]!;
        for (let pair = 0; pair < dim / 2; pair++) {
          const at = vector * dim + first(pair);
          const cos = table[position * dim + 2 * pair]!;
          const sin = table[position * dim + 2 * pair + 1]!;
          worst = Math.max(worst, Math.abs(x[at]! * cos - x[at + step]! * sin - want[at]!));
          const other = x[at]! * sin + x[at + step]! * cos;
          worst = Math.max(worst, Math.abs(other - want[at + step]!));
        }
      }
      expect(worst).toBeLessThanOrEqual(1e-6);
    }
  });

  test.each(cases.filter((golden) => golden.softmax_scale_factor !== undefined))(
    "softmaxScale: $name",
    (golden) => {
      const scale = softmaxScale({
        nope: 16,
        rope: 9,
        scaling: scalingOf(golden) as YarnScaling,
      });
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
