/**
 * Whether the subgroup matrices of this adapter multiply right: part of the start-up self-test where
 * numeric class mma128 is asked for.
 *
 * @module
 */
import { DeviceError } from "../src/errors.ts";
import type { Recorder } from "../src/gpu/recorder.ts";
import { packWeight } from "./linear/check_weights.ts";
import { DEFAULT_LAYOUT, paddedRows } from "./linear/layout.ts";
import { listedConfigs, matrixConfigs, matrixTiles } from "./linear/matrix_configs.ts";
import { matrixLinear } from "./linear/matrix_linear.ts";
import type { MatrixKernels, MatrixTiles } from "./linear/matrix_tiles.ts";
import { Bench } from "./self_test.ts";

/** Two tiles of rows and two of outputs; two groups of columns, the second a short one. */
const ROWS = 37;
const FEW_ROWS = 5;
const OUTPUTS = 70;
const COLUMNS = 150;
const STRIDE = 152;

/** Small whole numbers, of which every type of operand has all, and their products in any order. */
const left = (row: number, column: number) => ((row * 7 + column * 3) % 9) - 4;
const right = (row: number, column: number) => ((row * 5 + column * 11) % 7) - 3;

/**
 * The kernels of numeric class mma128, for the engine's option of that name: no part of an engine that
 * is not given them.
 */
export const matrixKernels: MatrixKernels = { workingTiles };

async function workingTiles(
  recorder: Recorder,
  { decode }: { readonly decode: boolean },
): Promise<MatrixTiles | undefined> {
  const { device } = recorder;
  const { subgroupMaxSize } = device.adapterInfo;
  for (const config of matrixConfigs(listedConfigs(device))) {
    const tiles = matrixTiles(config, { subgroupMaxSize, decode });
    if (await multipliesRight(recorder, tiles)) return tiles;
  }
  return undefined;
}

async function multipliesRight(recorder: Recorder, tiles: MatrixTiles): Promise<boolean> {
  const bench = new Bench(recorder);
  try {
    const shape = { ...DEFAULT_LAYOUT, dtype: "bf16", rows: OUTPUTS, columns: COLUMNS } as const;
    const packed = packWeight(shape, new Uint8Array(weightBits().buffer));
    const words = bench.tensor(packed.words);
    const weight = { ...shape, rowsPadded: paddedRows(OUTPUTS, shape.lanes), words };
    const x = bench.tensor(
      Float32Array.from({ length: ROWS * STRIDE }, (_, i) =>
        left(Math.floor(i / STRIDE), i % STRIDE),
      ),
    );
    // Tiles of both sizes.
    const outs = [ROWS, FEW_ROWS].map((rows) => ({ rows, out: bench.results(rows * OUTPUTS) }));
    const launches = outs.map(({ rows, out }) => {
      const launch = matrixLinear(recorder, {
        ...{ x, xStride: STRIDE, weight, tiles, out, outStride: OUTPUTS },
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
      return sums.every((sum, i) => sum === product(i));
    });
  } catch (error) {
    // The adapter says it can, and does not compile it: another of its products may do.
    if (error instanceof DeviceError) return false;
    throw error;
  } finally {
    bench.destroy();
  }
}

/** `[OUTPUTS, COLUMNS]` BF16. */
function weightBits(): Uint16Array {
  const floats = Float32Array.from({ length: OUTPUTS * COLUMNS }, (_, i) =>
    right(Math.floor(i / COLUMNS), i % COLUMNS),
  );
  return Uint16Array.from(new Uint32Array(floats.buffer), (bits) => bits >>> 16);
}

/** Element `i` of `[rows, OUTPUTS]`. */
function product(i: number): number {
  let sum = 0;
  for (let k = 0; k < COLUMNS; k++) {
    sum += left(Math.floor(i / OUTPUTS), k) * right(i % OUTPUTS, k);
  }
  return sum;
}
