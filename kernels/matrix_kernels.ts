/**
 * The kernels of numeric class mma128, by what they compute.
 *
 * @module
 */
import { mlaDecodeMatrix } from "./attention/mla/mla_decode_matrix.ts";
import { matrixGateUp } from "./linear/matrix/matrix_gate_up.ts";
import { matrixLinear } from "./linear/matrix/matrix_linear.ts";
import { matrixExperts } from "./moe/matrix/matrix_experts.ts";

export const MATRIX_KERNELS = {
  linear: matrixLinear,
  gateUp: matrixGateUp,
  experts: matrixExperts,
  mlaDecode: mlaDecodeMatrix,
};

export type MatrixKernelSet = typeof MATRIX_KERNELS;
