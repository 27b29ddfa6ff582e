import { describe, expect, test } from "vitest";
import quantizeE4m3 from "../../../kernels/common/numbers/quantize_e4m3.wgsl?raw";
import { packWeight } from "../../../kernels/linear/checks/check_weights.ts";
import { gateUp } from "../../../kernels/linear/gate_up.ts";
import { linear } from "../../../kernels/linear/linear.ts";
import type { Fp8Decode } from "../../../kernels/linear/weights/layout.ts";
import { gateUpRows, paddedRows } from "../../../kernels/linear/weights/weight_order.ts";
import { Kernel } from "../../../src/gpu/kernel.ts";
import { whole } from "../../../src/gpu/tensor.ts";
import {
  bytesOf,
  type Encoded,
  floatsOf,
  goldenKernelsAbsent,
  launch,
  readGoldenKernels,
} from "../../support/devices/golden_kernels.ts";
import { upload } from "../../support/devices/gpu.ts";

interface Golden {
  /** The NaN codes are the word "NaN". */
  readonly e4m3_decode: readonly (number | "NaN")[];
  readonly e4m3_encode: { readonly x: Encoded; readonly code: Encoded };
  readonly silu_mul: { readonly gate: Encoded; readonly up: Encoded; readonly y: Encoded };
  readonly fp8_block_matmul: {
    readonly N: number;
    readonly K: number;
    readonly weight: Encoded;
    readonly weight_scale_inv: Encoded;
    readonly x: Encoded;
    readonly y_weight_only: Encoded;
    readonly act_codes: Encoded;
    readonly act_scales: Encoded;
    readonly y_weight_and_activation: Encoded;
  };
}

const LANES = 8;
const golden = readGoldenKernels<Golden>();

/** Rounds each run of 128 columns (or every number by itself, with scale 1) as kernels do. */
const quantizer = new Kernel({
  name: "test/quantize",
  source: `${quantizeE4m3}
const SCALED = true;
struct Params { columns: u32, }
@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;
@compute @workgroup_size(1)
fn main(@builtin(workgroup_id) group: vec3u) {
  let row = group.y * params.columns;
  let end = row + min((group.x + 1u) * GROUP_COLUMNS, params.columns);
  var largest = 0.0;
  for (var c = row + group.x * GROUP_COLUMNS; c < end; c++) { largest = max(largest, abs(x[c])); }
  let scale = select(1.0, group_scale(largest), SCALED);
  for (var c = row + group.x * GROUP_COLUMNS; c < end; c++) {
    out[c] = round_e4m3(x[c] / scale) * scale;
  }
}`,
  buffers: ["x", "out"],
  params: ["columns"],
});

function quantize(x: Float32Array, columns: number, scaled: boolean): Promise<Float32Array> {
  return launch(x.length, (recorder, out) => {
    const tensors = { x: whole(upload(x)), out };
    const options = { constants: { SCALED: scaled }, params: { columns } };
    const bound = quantizer.bind(recorder, tensors, options);
    return () => bound.record(Math.ceil(columns / 128), x.length / columns);
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

describe.skipIf(goldenKernelsAbsent)("golden linear kernels", () => {
  const decodes: readonly Fp8Decode[] = ["half", "bits"];

  test.each(decodes)("linear decodes every E4M3 code exactly (%s)", async (fp8Decode) => {
    const shape = { dtype: "fp8", rows: 256, columns: 1, lanes: LANES } as const;
    const { words, scales } = packWeight(
      shape,
      Uint8Array.from({ length: 256 }, (_, code) => code),
      Float32Array.of(1, 1),
    );
    const got = await launch(256, (recorder, out) => {
      const record = linear(recorder, {
        x: whole(upload(Float32Array.of(1, Number.NaN, Number.NaN, Number.NaN))),
        xStride: 4,
        weight: {
          ...shape,
          rowsPadded: 256,
          words: whole(upload(words)),
          scales: whole(upload(scales)),
          fp8Decode,
        },
        out,
        outStride: 256,
      });
      return () => record(1);
    });
    golden!.e4m3_decode.forEach((value, code) => {
      if (value !== "NaN") expect(Math.abs(got[code]! - value), `code ${code}`).toBe(0);
    });
  });

  test("round_e4m3 agrees with the encoder", async () => {
    const { x, code } = golden!.e4m3_encode;
    const values = floatsOf(x);
    const got = await quantize(values, values.length, false);
    bytesOf(code).forEach((c, i) => {
      expect(got[i], `of ${values[i]}`).toBe(Number(golden!.e4m3_decode[c]));
    });
  });

  function multiply(x: Float32Array): Promise<Float32Array> {
    const { N: rows, K: columns, weight, weight_scale_inv } = golden!.fp8_block_matmul;
    const shape = { dtype: "fp8", rows, columns, lanes: LANES } as const;
    const { words, scales } = packWeight(shape, bytesOf(weight), floatsOf(weight_scale_inv));
    return launch((x.length / columns) * rows, (recorder, out) => {
      const record = linear(recorder, {
        x: whole(upload(x)),
        xStride: columns,
        weight: {
          ...shape,
          rowsPadded: paddedRows(rows, { lanes: LANES }),
          words: whole(upload(words)),
          scales: whole(upload(scales)),
        },
        out,
        outStride: rows,
      });
      return () => record(x.length / columns);
    });
  }

  test("linear multiplies by FP8 blocks", async () => {
    const { x, y_weight_only: want } = golden!.fp8_block_matmul;
    expect(errorOf(await multiply(floatsOf(x)), floatsOf(want))).toBeLessThan(1e-5);
  });

  test("linear multiplies quantized activations by FP8 blocks", async () => {
    const { K, x, act_codes, act_scales, y_weight_and_activation } = golden!.fp8_block_matmul;
    const quantized = await quantize(floatsOf(x), K, true);
    const scales = floatsOf(act_scales);
    const groups = Math.ceil(K / 128);
    const want = Float32Array.from(bytesOf(act_codes), (code, i) => {
      const group = Math.floor(i / K) * groups + Math.floor((i % K) / 128);
      return Number(golden!.e4m3_decode[code]) * scales[group]!;
    });
    expect(errorOf(quantized, want)).toBeLessThan(1e-6);
    const y = await multiply(quantized);
    expect(errorOf(y, floatsOf(y_weight_and_activation))).toBeLessThan(1e-5);
  });

  test("gateUp multiplies silu(gate) by up", async () => {
    const { gate, up, y } = golden!.silu_mul;
    const intermediate = floatsOf(gate).length;
    const { upRow, rows } = gateUpRows(intermediate, { lanes: LANES });
    const column = new Float32Array(rows);
    column.set(floatsOf(gate));
    column.set(floatsOf(up), upRow);
    const shape = { dtype: "f32", rows, columns: 1, lanes: LANES } as const;
    const { words } = packWeight(shape, new Uint8Array(column.buffer));
    const got = await launch(intermediate, (recorder, out) => {
      const record = gateUp(recorder, {
        x: whole(upload(Float32Array.of(1, 0, 0, 0))),
        xStride: 4,
        weight: { ...shape, rowsPadded: rows, words: whole(upload(words)) },
        intermediate,
        out,
        outStride: intermediate,
        quantize: false,
      });
      return () => record(1);
    });
    expect(errorOf(got, floatsOf(y))).toBeLessThan(1e-5);
  });
});
