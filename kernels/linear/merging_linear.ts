/**
 * A linear over slices of one row that attention left in splits: `kernels/common/x_merged.wgsl`.
 *
 * @module
 */
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import mergedSplits from "../common/merged_splits.wgsl?raw";
import softmax from "../common/online_softmax.wgsl?raw";
import outputsPlain from "../common/outputs_plain.wgsl?raw";
import outputsRounded from "../common/outputs_rounded.wgsl?raw";
import quantizeE4m3 from "../common/quantize_e4m3.wgsl?raw";
import writeSums from "../common/write_sums.wgsl?raw";
import xMerged from "../common/x_merged.wgsl?raw";
import { launchForms } from "./launch_form.ts";
import { BLOCK_COLUMNS } from "./layout.ts";
import {
  bindLinear,
  type LinearOptions,
  lanesOf,
  linearText,
  linearWidth,
  ROUNDING_LANES,
  ROWS_PER_LANE,
} from "./linear.ts";
import { weightCost } from "./weight_cost.ts";
import { requireMultiplesOf4, weightKernels } from "./weight_kernel.ts";

const NAME = "linear/linear";
const FLOAT_BYTES = 4;
/** Beside the merged slices and what forms of the launch take. */
const OTHER_BYTES = 512;

const texts = [writeSums, softmax, mergedSplits];
const plain = weightKernels({ ...linearText(outputsPlain, ...texts), xVector: xMerged });
const rounded = weightKernels({
  ...linearText(outputsRounded, quantizeE4m3, ...texts),
  xVector: xMerged,
});

export interface MergingLinearOptions
  extends Pick<LinearOptions, "weight" | "out" | "outStride" | "forms"> {
  /** `[splits, groups, 2 + columns]` f32, as attention leaves them for `mergeSplits` */
  readonly partials: Tensor;
  /** Weight rows that are multiplied with the same slice. */
  readonly groupRows: number;
  /** Whether each 128 outputs are rounded to E4M3, as `roundOutputs` of `linear` has it. */
  readonly roundOutputs: boolean;
}

/**
 * What `mergeSplits` and then `linear` with groups make of one row, bit for bit, in one launch.
 *
 * Binds the tensors now; the returned function records the launch over so many splits. It is undefined
 * where a workgroup has no room for its slices, or would round outputs of a part of one.
 */
export function mergingLinear(
  recorder: Recorder,
  options: MergingLinearOptions,
): ((splits: number) => void) | undefined {
  const { partials, weight, groupRows, roundOutputs } = options;
  const { columns, rows, lanes } = weight;
  requireMultiplesOf4(NAME, { columns });
  const slices = roundOutputs ? Math.max(BLOCK_COLUMNS / groupRows, 1) : 1;
  const ownBytes = slices * columns * FLOAT_BYTES;
  const isWhole = (slices * groupRows) % BLOCK_COLUMNS === 0 && Number.isInteger(slices);
  if (roundOutputs && !(isWhole && groupRows % (ROWS_PER_LANE * lanes) === 0)) return;
  if (ownBytes + OTHER_BYTES > recorder.device.limits.maxComputeWorkgroupStorageSize) return;
  const most = ROUNDING_LANES;
  const rowLanes = roundOutputs ? most : lanesOf(groupRows, { lanes, most });
  const form = launchForms(weight, { rowLanes, ownBytes }, options.forms)[0]!;
  const xStride = Math.ceil(rows / groupRows) * (2 + columns);
  const kernel = bindLinear(recorder, roundOutputs ? rounded : plain, {
    ...{ ...options, x: partials, xStride, form },
    groups: { rows: groupRows, xStride: columns },
    constants: { SLICES: slices, SLICE_VECTORS: columns / 4 },
    cost: ({ param }) => {
      const { bytes, flops } = weightCost(weight, 1, rows);
      const floats = param("rows") * xStride;
      return { bytes: bytes + floats * FLOAT_BYTES, flops: flops + 4 * floats };
    },
  });
  const width = linearWidth(rows, roundOutputs ? rows : groupRows, form);
  return (splits) => {
    kernel.set("rows", splits);
    kernel.record(width);
  };
}
