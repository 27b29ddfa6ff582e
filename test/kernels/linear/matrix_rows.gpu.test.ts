/** Which rows of a launch are of class mma128: those of prompts, or all of them. */

import { describe, expect, test } from "vitest";
import { emulatedTiles, MATRIX_CONFIGS } from "../../../kernels/linear/checks/check_matrix.ts";
import { randomWeight } from "../../../kernels/linear/checks/check_weights.ts";
import { gateUp } from "../../../kernels/linear/gate_up.ts";
import { linear } from "../../../kernels/linear/linear.ts";
import type { LinearWeight } from "../../../kernels/linear/linear_layout.ts";
import type { MatrixClass } from "../../../kernels/linear/matrix_class.ts";
import type { RecordRows } from "../../../kernels/linear/weights/launch_form.ts";
import { DEFAULT_LAYOUT } from "../../../kernels/linear/weights/layout.ts";
import { gateUpRows, paddedRows } from "../../../kernels/linear/weights/weight_order.ts";
import { Recorder } from "../../../src/gpu/recorder.ts";
import { type Tensor, whole } from "../../../src/gpu/tensor.ts";
import { device, download, seeded, upload } from "../../support/devices/gpu.ts";

const ROWS = 6;
const COLUMNS = 140;
const OUTPUTS = 40;
const TILES = emulatedTiles(MATRIX_CONFIGS["f16 16x16x16"]);

const random = seeded(7);
const x = Float32Array.from({ length: ROWS * COLUMNS }, () => random() - 0.5);
const shape = { ...DEFAULT_LAYOUT, dtype: "bf16", columns: COLUMNS } as const;
const matrixOf = (rows: number): LinearWeight => ({
  ...{ ...shape, rows, rowsPadded: paddedRows(rows, shape) },
  words: whole(upload(randomWeight({ ...shape, rows }, random).words)),
});
const single = matrixOf(OUTPUTS);
const halves = matrixOf(gateUpRows(OUTPUTS, shape).rows);

interface Output {
  readonly x: Tensor;
  readonly xStride: number;
  readonly out: Tensor;
  readonly outStride: number;
}

const KERNELS: Readonly<
  Record<string, (recorder: Recorder, output: Output, matrix?: MatrixClass) => RecordRows>
> = {
  linear: (recorder, output, matrix) =>
    linear(recorder, { ...output, weight: { ...single, ...(matrix && { matrix }) } }),
  gateUp: (recorder, output, matrix) =>
    gateUp(recorder, {
      ...{ ...output, intermediate: OUTPUTS, quantize: false },
      weight: { ...halves, ...(matrix && { matrix }) },
    }),
};

describe.each(Object.entries(KERNELS))("%s", (_, bind) => {
  /** The output rows. */
  async function run(decodeRows: number, matrix?: MatrixClass): Promise<Float32Array[]> {
    const recorder = new Recorder(device);
    const input = { x: whole(upload(x)), xStride: COLUMNS };
    const out = whole(upload(new Float32Array(ROWS * OUTPUTS).fill(Number.NaN)));
    const launch = bind(recorder, { ...input, out, outStride: OUTPUTS }, matrix);
    await recorder.pipelines.ready();
    launch(ROWS, decodeRows);
    recorder.submit();
    const values = new Float32Array(await download(out.buffer));
    recorder.destroy();
    return Array.from({ length: ROWS }, (_, r) => values.slice(r * OUTPUTS, (r + 1) * OUTPUTS));
  }

  test("rows of prompts and generated ones have the bits of their class", async () => {
    const decode = await run(ROWS);
    const prompts = await run(ROWS, { ...TILES, decode: true });
    expect([...decode, ...prompts].flatMap((row) => [...row]).every(Number.isFinite)).toBe(true);
    for (const [r, row] of prompts.entries()) expect(row).not.toEqual(decode[r]);
    for (const decodeRows of [0, 2, ROWS]) {
      const wanted = [...decode.slice(0, decodeRows), ...prompts.slice(decodeRows)];
      expect(await run(decodeRows, TILES)).toEqual(wanted);
    }
    expect(await run(2, { ...TILES, decode: true })).toEqual(prompts);
  });
});
