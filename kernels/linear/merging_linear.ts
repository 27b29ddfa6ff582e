/**
 * A linear over slices of one row that attention left in splits: `kernels/common/x_merged.wgsl`.
 *
 * @module
 */
import { KernelError } from "../../src/errors.ts";
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
import { BLOCK_COLUMNS, type LinearWeight } from "./layout.ts";
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

interface MergingShape {
  readonly weight: LinearWeight;
  /** Weight rows that are multiplied with the same slice. */
  readonly groupRows: number;
  /** Whether each 128 outputs are rounded to E4M3, as `roundOutputs` of `linear` has it. */
  readonly roundOutputs: boolean;
}

export interface MergingLinearOptions
  extends MergingShape,
    Pick<LinearOptions, "out" | "outStride" | "forms"> {
  /** `[splits, groups, 2 + columns]` f32, as attention leaves them for `mergeSplits` */
  readonly partials: Tensor;
}

/** Slices that the outputs of a workgroup are made of. */
function slicesOf({ groupRows, roundOutputs }: MergingShape): number {
  return roundOutputs ? Math.max(BLOCK_COLUMNS / groupRows, 1) : 1;
}

const sliceBytes = (shape: MergingShape) => slicesOf(shape) * shape.weight.columns * FLOAT_BYTES;

/** Whether a workgroup of this device has room for its slices, and shares none but a whole one. */
export function mergeFits(
  {
    maxComputeWorkgroupStorageSize: most,
  }: Pick<GPUSupportedLimits, "maxComputeWorkgroupStorageSize">,
  shape: MergingShape,
): boolean {
  const { weight, groupRows, roundOutputs } = shape;
  const isWhole = BLOCK_COLUMNS % groupRows === 0 || groupRows % BLOCK_COLUMNS === 0;
  const runs = groupRows % (ROWS_PER_LANE * weight.lanes) === 0;
  return (!roundOutputs || (isWhole && runs)) && sliceBytes(shape) + OTHER_BYTES <= most;
}

/**
 * What `mergeSplits` and then `linear` with groups make of one row, bit for bit, in one launch.
 *
 * Binds the tensors now; the returned function records the launch over so many splits.
 */
export function mergingLinear(
  recorder: Recorder,
  options: MergingLinearOptions,
): (splits: number) => void {
  const { partials, weight, groupRows, roundOutputs } = options;
  const { columns, rows, lanes } = weight;
  requireMultiplesOf4(NAME, { columns });
  if (!mergeFits(recorder.device.limits, options)) {
    throw new KernelError(NAME, `slices for ${groupRows} outputs cannot be merged`);
  }
  const groups = Math.ceil(rows / groupRows);
  const xStride = groups * (2 + columns);
  const [form] = launchForms(
    weight,
    {
      rowLanes: roundOutputs ? ROUNDING_LANES : lanesOf(groupRows, { lanes, most: ROUNDING_LANES }),
      ownBytes: sliceBytes(options),
    },
    options.forms,
  );
  const kernel = bindLinear(recorder, roundOutputs ? rounded : plain, {
    ...{ ...options, x: partials, xStride, form: form! },
    groups: { rows: groupRows, xStride: columns },
    constants: { SLICES: slicesOf(options), SLICE_VECTORS: columns / 4 },
    cost: ({ param }) => {
      const { bytes, flops } = weightCost(weight, 1, rows);
      const floats = param("rows") * xStride;
      return { bytes: bytes + floats * FLOAT_BYTES, flops: flops + 4 * floats };
    },
  });
  const width = roundOutputs
    ? Math.ceil(rows / BLOCK_COLUMNS)
    : linearWidth(weight, groupRows, form!);
  return (splits) => {
    kernel.set("rows", splits);
    kernel.record(width);
  };
}
