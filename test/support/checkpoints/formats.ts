/**
 * Formats of matrices for layers that a test makes by itself.
 *
 * @module
 */
import type { Quantization } from "../../../src/checkpoint/quantization.ts";
import type { Dtype } from "../../../src/dtype.ts";
import { MatrixFormats } from "../../../src/layers/weights/matrix_format.ts";

const FP8_BLOCKS: Quantization = {
  method: "fp8_block",
  blockRows: 128,
  blockColumns: 128,
  activations: "dynamic",
  name: "fp8",
  unconverted: [],
};

/** Every matrix of one element type; FP8 in blocks. */
export function formatsOf(
  dtypeOf: Dtype | ((name: string) => Dtype),
  quantization?: Quantization,
): MatrixFormats {
  const of = typeof dtypeOf === "string" ? () => dtypeOf : dtypeOf;
  return new MatrixFormats({
    tensor: (name) => ({ dtype: of(name), shape: [] }),
    quantization: quantization ?? FP8_BLOCKS,
  });
}
