import { type Constants, Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import bestOfRow from "../common/sampling/best_of_row.wgsl?raw";
import orderedBits from "../common/sampling/ordered_bits.wgsl?raw";
import workgroupBest from "../common/sampling/workgroup_best.wgsl?raw";
import source from "./argmax.wgsl?raw";

export const argmaxKernel = new Kernel({
  name: "sampling/argmax",
  source: orderedBits + workgroupBest + bestOfRow + source,
  buffers: ["logits", "tiles", "ids"],
  params: ["vocabulary", "stride", "tile_count"],
});

export interface ArgmaxOptions {
  /** `[rows, stride]` f32 */
  readonly logits: Tensor;
  /** `[rows]` u32 */
  readonly ids: Tensor;
  /** Logits in a row. */
  readonly vocabulary: number;
  /** Default `vocabulary`. */
  readonly stride?: number;
  /** Invocations per row, 64 or 256; the answer is the same. Default: by the vocabulary. */
  readonly workgroupSize?: number;
}

/** Invocations that a row of logits keeps busy. */
export const rowWorkgroupSize = (vocabulary: number): number => (vocabulary > 16384 ? 256 : 64);

/** What the kernel is compiled with for rows of so many logits. */
export function rowConstants(
  vocabulary: number,
  workgroupSize: number = rowWorkgroupSize(vocabulary),
): Constants {
  return { WORKGROUP_SIZE: workgroupSize, BEST_BLOCK: Math.sqrt(workgroupSize) };
}

/**
 * The index of each row's largest logit, the lowest one of equals. NaN never wins.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows.
 */
export function argmax(recorder: Recorder, options: ArgmaxOptions): (rows: number) => void {
  const { logits, ids, vocabulary, stride = vocabulary, workgroupSize } = options;
  const bound = argmaxKernel.bind(
    recorder,
    // A binding cannot stay empty.
    { logits, tiles: logits, ids },
    {
      constants: rowConstants(vocabulary, workgroupSize),
      params: { vocabulary, stride, tile_count: 0 },
      cost: ({ grid: [rows] }) => ({ bytes: rows * vocabulary * 4, flops: 0 }),
    },
  );
  return (rows) => bound.record(rows);
}
