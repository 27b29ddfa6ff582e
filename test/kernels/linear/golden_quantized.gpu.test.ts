import { describe, expect, test } from "vitest";
import { packWeight } from "../../../kernels/linear/checks/check_weights.ts";
import { linear } from "../../../kernels/linear/linear.ts";
import type { LinearWeight } from "../../../kernels/linear/linear_layout.ts";
import { int4ScaleWord, scaleWords } from "../../../kernels/linear/weights/layout.ts";
import { paddedRows } from "../../../kernels/linear/weights/weight_order.ts";
import { quantize } from "../../../kernels/norm/quantize.ts";
import { decodeF16 } from "../../../src/dtype.ts";
import { whole } from "../../../src/gpu/tensor.ts";
import {
  bytesOf,
  type Encoded,
  floatsOf,
  goldenKernelsAbsent,
  launch,
  readGoldenKernels,
  wholesOf,
} from "../../support/devices/golden_kernels.ts";
import { upload } from "../../support/devices/gpu.ts";

interface Golden {
  readonly int8_channel_matmul: {
    readonly weight: Encoded;
    readonly weight_scale: Encoded;
    readonly x: Encoded;
    readonly act_codes: Encoded;
    readonly act_scales: Encoded;
    readonly y_weight_only: Encoded;
    readonly y_w8a8: Encoded;
  };
  readonly awq_matmul: {
    readonly N: number;
    readonly K: number;
    readonly group_size: number;
    readonly scales_f16: Encoded;
    /** `[K, N]` codes */
    readonly weight_int_KxN: Encoded;
    /** `[K / group_size, N]` codes */
    readonly zero_int: Encoded;
    readonly x: Encoded;
    readonly y: Encoded;
  };
}

const LANES = 8;
const golden = readGoldenKernels<Golden>();

function multiply(x: Float32Array, weight: LinearWeight): Promise<Float32Array> {
  const { rows, columns } = weight;
  const count = x.length / columns;
  return launch(count * rows, (recorder, out) => {
    const xTensor = whole(upload(x));
    const options = { x: xTensor, xStride: columns, weight, out, outStride: rows };
    const record = linear(recorder, options);
    return () => record(count);
  });
}

/** Largest |got - want| over the largest |want|. */
function errorOf(got: Float32Array, want: Float32Array): number {
  let error = 0;
  let largest = 0;
  want.forEach((value, i) => {
    error = Math.max(error, Math.abs(got[i]! - value));
    largest = Math.max(largest, Math.abs(value));
  });
  return got.some(Number.isNaN) ? Number.NaN : error / largest;
}

describe.skipIf(goldenKernelsAbsent)("golden kernels over quantized weights", () => {
  function int8Weight(): LinearWeight {
    const { weight, weight_scale } = golden!.int8_channel_matmul;
    const [rows, columns] = weight.shape as [number, number];
    const shape = { dtype: "int8", rows, columns, lanes: LANES } as const;
    const rowsPadded = paddedRows(rows, { lanes: LANES });
    const { words } = packWeight(shape, bytesOf(weight));
    const scales = new Float32Array(scaleWords(shape) * rowsPadded);
    for (let i = 0; i < scales.length; i += rowsPadded) scales.set(floatsOf(weight_scale), i);
    const tensors = { words: whole(upload(words)), scales: whole(upload(scales)) };
    return { ...shape, rowsPadded, ...tensors };
  }

  test("linear multiplies by int8 channels", async () => {
    const { x, y_weight_only: want } = golden!.int8_channel_matmul;
    expect(errorOf(await multiply(floatsOf(x), int8Weight()), floatsOf(want))).toBeLessThan(1e-5);
  });

  test("quantize rounds each row to int8, and linear multiplies it by int8 channels", async () => {
    const { x, act_codes, act_scales, y_w8a8 } = golden!.int8_channel_matmul;
    const [rows, cols] = x.shape as [number, number];
    const rounded = await launch(rows * cols, (recorder, out) => {
      const rounding = { format: "int8", group: "row" } as const;
      const record = quantize(recorder, { x: whole(upload(floatsOf(x))), out, cols, rounding });
      return () => record(rows);
    });
    const scales = floatsOf(act_scales);
    const codes = new Int8Array(bytesOf(act_codes).buffer);
    const want = Float32Array.from(codes, (code, i) => code * scales[Math.floor(i / cols)]!);
    expect(errorOf(rounded, want)).toBeLessThan(1e-6);
    expect(errorOf(await multiply(rounded, int8Weight()), floatsOf(y_w8a8))).toBeLessThan(1e-5);
  });

  test("linear multiplies by int4 groups with zero points", async () => {
    const { N: rows, K: columns, group_size, ...encoded } = golden!.awq_matmul;
    const groupColumns = group_size as 32;
    const shape = { dtype: "int4", rows, columns, lanes: LANES, groupColumns } as const;
    const rowsPadded = paddedRows(rows, { lanes: LANES });
    const codes = wholesOf(encoded.weight_int_KxN);
    const pairs = Uint8Array.from({ length: (rows * columns) / 2 }, (_, i) => {
      const row = Math.floor((2 * i) / columns);
      const column = (2 * i) % columns;
      return codes[column * rows + row]! | (codes[(column + 1) * rows + row]! << 4);
    });
    const { words } = packWeight(shape, pairs);
    const halves = new Uint16Array(bytesOf(encoded.scales_f16).buffer);
    const zeros = wholesOf(encoded.zero_int);
    const scales = new Uint32Array(scaleWords(shape) * rowsPadded);
    halves.forEach((half, i) => {
      const at = Math.floor(i / rows) * rowsPadded + (i % rows);
      scales[at] = int4ScaleWord(decodeF16(half), zeros[i]!);
    });
    const tensors = { words: whole(upload(words)), scales: whole(upload(scales)) };
    const y = await multiply(floatsOf(encoded.x), { ...shape, rowsPadded, ...tensors });
    expect(errorOf(y, floatsOf(encoded.y))).toBeLessThan(1e-5);
  });
});
