/**
 * Whether the subgroup matrices of this adapter multiply right: part of the start-up self-test where
 * numeric class mma128 is asked for.
 *
 * Linears are of whole numbers, which they must give exactly. Latent attention loads its values in
 * another way than linears load anything: it runs once with all weight on the best keys of a row, and
 * once with the same weight on all keys, and must give means of whole numbers.
 *
 * @module
 */
import { DeviceError } from "../src/errors.ts";
import { lossOf } from "../src/gpu/device.ts";
import type { Recorder } from "../src/gpu/recorder.ts";
import { KEY_TILE } from "./attention/exchange.ts";
import { mlaDecodeMatrix } from "./attention/mla/mla_decode_matrix.ts";
import { packWeight } from "./linear/checks/check_weights.ts";
import { listedConfigs, matrixConfigs, matrixTiles } from "./linear/matrix/matrix_configs.ts";
import { matrixLinear } from "./linear/matrix/matrix_linear.ts";
import type { MatrixTiles } from "./linear/matrix/matrix_tiles.ts";
import type { LatentSizes, MatrixClass, MatrixKernels, MatrixUse } from "./linear/matrix_class.ts";
import { DEFAULT_LAYOUT } from "./linear/weights/layout.ts";
import { paddedRows } from "./linear/weights/weight_order.ts";
import { Bench, steady } from "./self_test.ts";

/** Two tiles of rows and two of outputs; two groups of columns, the second a short one. */
const ROWS = 37;
const FEW_ROWS = 5;
const OUTPUTS = 70;
const COLUMNS = 150;
const STRIDE = 152;

/** Small whole numbers, of which every type of operand has all, and their products in any order. */
const left = (row: number, column: number) => ((row * 7 + column * 3) % 9) - 4;
const right = (row: number, column: number) => ((row * 5 + column * 11) % 7) - 3;

/** Two tiles of heads, and of keys; the second tile is a short one, or none. */
const HEADS = 19;
const SEEN_KEYS = [70, 1, 90];
const KEYS = 90;
const NOPE = 4;
const LARGEST = 3;
/** A score of one less is so much less that its weight is no number above zero. */
const BEST_KEY_ALONE = 200;
const ALL_KEYS_ALIKE = 0;
/** Of values up to `LARGEST`, whose weights may not be one exactly. */
const TOLERANCE = 1e-4;
const COSINES = [1, 0, -1, 0];

/**
 * The kernels of numeric class mma128, for the engine's option of that name: no part of an engine that
 * is not given them.
 */
export const matrixKernels: MatrixKernels = { workingTiles };

async function workingTiles(
  recorder: Recorder,
  { decode, latents }: MatrixUse,
): Promise<MatrixClass | undefined> {
  const { device } = recorder;
  const { subgroupMaxSize } = device.adapterInfo;
  for (const config of matrixConfigs(listedConfigs(device))) {
    const tiles = matrixTiles(config, { subgroupMaxSize, decode });
    if (!(await isRight(recorder, (bench) => multipliesRight(bench, tiles)))) continue;
    if (!decode || latents === undefined) return tiles;
    if (await isRight(recorder, (bench) => attendsRight(bench, tiles, latents))) return tiles;
  }
  return undefined;
}

async function isRight(
  recorder: Recorder,
  test: (bench: Bench) => Promise<boolean>,
): Promise<boolean> {
  const bench = new Bench(recorder);
  try {
    return await test(bench);
  } catch (error) {
    // The adapter says it can, and does not compile it: another of its products may do.
    const isRefused = error instanceof DeviceError && (await lossOf(recorder.device)) === undefined;
    if (isRefused) return false;
    throw error;
  } finally {
    bench.destroy();
  }
}

async function multipliesRight(bench: Bench, tiles: MatrixTiles): Promise<boolean> {
  const { recorder } = bench;
  const shape = { ...DEFAULT_LAYOUT, dtype: "bf16", rows: OUTPUTS, columns: COLUMNS } as const;
  const packed = packWeight(shape, new Uint8Array(asBf16(weights()).buffer));
  const words = bench.tensor(packed.words);
  const weight = { ...shape, rowsPadded: paddedRows(OUTPUTS, shape), words };
  const x = bench.tensor(
    Float32Array.from({ length: ROWS * STRIDE }, (_, i) =>
      left(Math.floor(i / STRIDE), i % STRIDE),
    ),
  );
  // Tiles of both sizes.
  const outs = [ROWS, FEW_ROWS].map((rows) => ({ rows, out: bench.results(rows * OUTPUTS) }));
  const launches = outs.map(({ rows, out }) => {
    const launch = matrixLinear(recorder, {
      x,
      xStride: STRIDE,
      weight,
      tiles,
      out,
      outStride: OUTPUTS,
    });
    return () => launch(0, rows);
  });
  const got = await bench.run(
    launches,
    outs.map(({ out }) => out),
  );
  // A tensor may be longer than what was asked for.
  return outs.every(({ rows }, o) => {
    const sums = new Float32Array(got[o]!, 0, rows * OUTPUTS);
    return sums.every((sum, i) => sum === output(i));
  });
}

/** Runs absorbed attention, of the model's sizes. */
async function attendsRight(
  bench: Bench,
  tiles: MatrixTiles,
  sizes: LatentSizes,
): Promise<boolean> {
  const { recorder } = bench;
  const inputs = attentionInputs(sizes);
  const { latent, rope } = sizes;
  const common = {
    tiles,
    heads: HEADS,
    nope: NOPE,
    latent,
    rope,
    pageSize: KEYS,
    splitLength: KEY_TILE,
    queryAbsorbed: bench.tensor(inputs.absorbed),
    query: bench.tensor(inputs.query),
    queryStride: HEADS * (NOPE + rope),
    cache: bench.tensor(asBf16(inputs.entries)),
    cacheDtype: "bf16",
    rows: bench.tensor(Uint32Array.from(SEEN_KEYS.flatMap((seen) => [0, seen - 1, 0, 0]))),
    pageTables: bench.tensor(Uint32Array.of(0)),
    ropeTable: bench.tensor(inputs.turns),
  } as const;
  const runs = [BEST_KEY_ALONE, ALL_KEYS_ALIKE].map((scale) => {
    const out = bench.results(SEEN_KEYS.length * HEADS * latent);
    const launch = mlaDecodeMatrix(recorder, { ...common, out, scale });
    return { scale, out, launch: () => launch(SEEN_KEYS.length, 1) };
  });
  const got = await bench.run(
    runs.map(({ launch }) => launch),
    runs.map(({ out }) => out),
  );
  return runs.every(({ scale }, i) => {
    const values = new Float32Array(got[i]!);
    return attended(inputs, sizes, scale).every(
      (value, at) => Math.abs(values[at]! - value) <= TOLERANCE,
    );
  });
}

interface AttentionInputs {
  /** `[rows, HEADS, latent]` */
  readonly absorbed: Float32Array;
  /** `[rows, HEADS, NOPE + rope]` */
  readonly query: Float32Array;
  /** `[KEYS, latent + rope]` */
  readonly entries: Float32Array;
  /** `[KEYS, rope / 2]` cosine, sine */
  readonly turns: Float32Array;
}

/** Whole numbers, and quarter turns. */
function attentionInputs({ latent, rope }: LatentSizes): AttentionInputs {
  const random = steady();
  const rows = SEEN_KEYS.length * HEADS;
  const numbers = (count: number) =>
    Float32Array.from({ length: count }, () => Math.floor(random() * (2 * LARGEST + 1)) - LARGEST);
  return {
    absorbed: numbers(rows * latent),
    query: numbers(rows * (NOPE + rope)),
    entries: numbers(KEYS * (latent + rope)),
    turns: Float32Array.from({ length: KEYS * rope }, (_, i) => {
      const quarters = Math.floor(i / rope) + Math.floor((i % rope) / 2);
      return COSINES[(quarters + 3 * (i % 2)) % 4]!;
    }),
  };
}

/** `[rows, HEADS, latent]`: the mean of the values of a row's best keys, which have one score. */
function attended(inputs: AttentionInputs, sizes: LatentSizes, scale: number): number[] {
  const { latent, rope } = sizes;
  const entry = (key: number) =>
    inputs.entries.subarray(key * (latent + rope), (key + 1) * (latent + rope));
  return SEEN_KEYS.flatMap((seen, row) =>
    Array.from({ length: HEADS }, (_, head) => {
      const query = turnedQuery(inputs, sizes, { row, head });
      const scores = Array.from({ length: seen }, (_, key) => scale * product(query, entry(key)));
      const best = Math.max(...scores);
      const keys = scores.flatMap((score, key) => (score === best ? [key] : []));
      return Array.from({ length: latent }, (_, v) => {
        const sum = keys.reduce((total, key) => total + entry(key)[v]!, 0);
        return sum / keys.length;
      });
    }).flat(),
  );
}

/** `[latent + rope]` */
function turnedQuery(
  { absorbed, query, turns }: AttentionInputs,
  { latent, rope }: LatentSizes,
  { row, head }: { readonly row: number; readonly head: number },
): number[] {
  const at = row * HEADS + head;
  const position = SEEN_KEYS[row]! - 1;
  const first = at * (NOPE + rope) + NOPE;
  const turned = Array.from({ length: rope }, (_, i) => {
    const pair = i - (i % 2);
    const [x, y] = query.subarray(first + pair, first + pair + 2);
    const [cosine, sine] = turns.subarray(position * rope + pair, position * rope + pair + 2);
    return i % 2 === 0 ? x! * cosine! - y! * sine! : x! * sine! + y! * cosine!;
  });
  return [...absorbed.subarray(at * latent, (at + 1) * latent), ...turned];
}

function product(left: ArrayLike<number>, right: ArrayLike<number>): number {
  let sum = 0;
  for (let i = 0; i < left.length; i++) sum += left[i]! * right[i]!;
  return sum;
}

/** Words of two numbers, which have few bits. */
function asBf16(floats: Float32Array): Uint32Array {
  const bits = Uint16Array.from(new Uint32Array(floats.buffer), (word) => word >>> 16);
  return new Uint32Array(bits.buffer);
}

/** `[OUTPUTS, COLUMNS]` */
function weights(): Float32Array {
  return Float32Array.from({ length: OUTPUTS * COLUMNS }, (_, i) =>
    right(Math.floor(i / COLUMNS), i % COLUMNS),
  );
}

/** Element `i` of `[rows, OUTPUTS]`. */
function output(i: number): number {
  let sum = 0;
  for (let k = 0; k < COLUMNS; k++) {
    sum += left(Math.floor(i / OUTPUTS), k) * right(i % OUTPUTS, k);
  }
  return sum;
}
