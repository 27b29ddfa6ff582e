import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./join_sums.wgsl?raw";

const WORKGROUP_SIZE = 64;

const kernel = new Kernel({
  name: "linear/join_sums",
  source,
  buffers: ["sums", "bias", "out"],
  params: ["rows", "ranks", "parts", "outputs", "stride", "out_stride", "out_column"],
});

export interface JoinSumsOptions {
  /** `[ranks, rows, parts, stride]` f32: sums of parts of each output's inputs, in their order */
  readonly sums: Tensor;
  readonly ranks: number;
  /** Of each rank; `ranks * parts` is at most 32. */
  readonly parts: number;
  readonly stride: number;
  readonly outputs: number;
  /** `[outputs]` f32, added once in the end */
  readonly bias?: Tensor | undefined;
  /** `[rows, outStride]` f32 */
  readonly out: Tensor;
  readonly outStride: number;
  /** Column of `out` that output 0 goes to. Default 0. */
  readonly outColumn?: number;
}

/**
 * Adds up what `rankSegments()` of layout.ts has cut, to the bits of the whole linear.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows.
 */
export function joinSums(recorder: Recorder, options: JoinSumsOptions): (rows: number) => void {
  const { sums, ranks, parts, stride, outputs, bias, out, outStride, outColumn = 0 } = options;
  const bound = kernel.bind(
    recorder,
    { sums, bias: bias ?? sums, out },
    {
      constants: { BIAS: bias !== undefined },
      params: {
        ranks,
        parts,
        outputs,
        stride,
        out_stride: outStride,
        out_column: outColumn,
      },
      cost: ({ param }) => ({
        bytes: (ranks * parts + 1) * param("rows") * outputs * 4,
        flops: ranks * parts * param("rows") * outputs,
      }),
    },
  );
  return (rows) => {
    bound.set("rows", rows);
    bound.record(Math.ceil(outputs / WORKGROUP_SIZE), rows);
  };
}
