/** Where the words of a weight lie changes no bit of what it is multiplied with. */
import { expect, test } from "vitest";
import {
  checkOrder,
  IN_RUNS,
  outputsByColumns,
  randomRows,
  randomWeight,
  reorderWeight,
} from "../../../kernels/linear/checks/check_weights.ts";
import { linear } from "../../../kernels/linear/linear.ts";
import { paddedRows } from "../../../kernels/linear/weights/weight_order.ts";
import { Recorder } from "../../../src/gpu/recorder.ts";
import { whole } from "../../../src/gpu/tensor.ts";
import { device, download, fullTest, seeded, upload } from "../../support/devices/gpu.ts";

const [ROWS, OUTPUTS, COLUMNS, STRIDE] = [3, 77, 269, 272];
const FORMS = [{ tokens: 1, split: 1, workgroup: 8, cost: 1 }];
/** Scales of a group each, and of four groups in a word. */
const DTYPES = fullTest ? (["fp8", "mxfp4", "int8", "int4"] as const) : (["fp8", "mxfp4"] as const);

test.each(DTYPES)("%s weights give the same bits in every order", async (dtype) => {
  const random = seeded(7);
  const shape = outputsByColumns({ dtype, outputs: OUTPUTS, columns: COLUMNS });
  const packed = randomWeight(shape, random);
  const rows = randomRows({ rows: ROWS, columns: COLUMNS, stride: STRIDE }, random);
  const x = whole(upload(rows));
  const results: Float32Array[] = [];
  for (const own of [{}, IN_RUNS, { ...IN_RUNS, rowsPerLane: 2 }]) {
    const order = checkOrder(own);
    const { words, scales } = reorderWeight(shape, order, packed);
    const out = whole(upload(new Float32Array(ROWS * OUTPUTS).fill(Number.NaN)));
    const recorder = new Recorder(device, { maxLaunches: 1 });
    const launch = linear(recorder, {
      ...{ x, xStride: STRIDE, out, outStride: OUTPUTS, forms: FORMS },
      weight: {
        ...{ ...shape, ...order, rowsPadded: paddedRows(OUTPUTS, order) },
        ...{ words: whole(upload(words)), scales: whole(upload(scales)) },
      },
    });
    await recorder.pipelines.ready();
    launch(ROWS);
    recorder.submit();
    results.push(new Float32Array(await download(out.buffer)));
    recorder.destroy();
  }
  const [plain, ...others] = results;
  expect(plain!.every((value) => Number.isFinite(value) && value !== 0)).toBe(true);
  for (const other of others) expect(other).toEqual(plain);
});
