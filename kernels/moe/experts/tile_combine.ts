import type { Recorder } from "../../../src/gpu/recorder.ts";
import type { Tensor } from "../../../src/gpu/tensor.ts";
import { rowLanes } from "../../linear/weights/launch_form.ts";
import { requireMultiplesOf4, weightKernels } from "../../linear/weights/weight_kernel.ts";
import {
  COMBINE_PARAMS,
  COMBINE_TEXT,
  combineLanes,
  combineLaunch,
  type ExpertCombineOptions,
} from "./expert_combine.ts";
import { pairTile, tileForms } from "./expert_tiles.ts";
import source from "./tile_combine.wgsl?raw";

const NAME = "moe/tile_combine";

const kernels = weightKernels({
  name: NAME,
  source: `${source}\n${COMBINE_TEXT}`,
  buffers: [
    "x",
    "weights",
    "scales",
    "bias",
    "pairs",
    "tiles",
    "outputs",
    "out",
    "norm_weight",
    "normed",
  ],
  params: [...COMBINE_PARAMS, "outputs_stride"],
});
const BUFFERS = 10;
/** Of workgroup memory, for rows of the residual stream between two barriers. */
const STREAM_BYTES = 4096;
const VECTOR_BYTES = 16;

export interface TileCombineOptions extends Omit<ExpertCombineOptions, "experts"> {
  /** `[rows * slots]` u32: pairs in the order of their experts; in front of `slotWeights` in its buffer */
  readonly sortedPairs: Tensor;
  /**
   * vec4u: `(tiles, 0, 0, 0)`, then `(expert, first index in sortedPairs, pairs, 0)` of each tile, of
   * at most `pairTile()` pairs
   */
  readonly tiles: Tensor;
  /** `[rows * slots, outputsStride]` f32, overwritten; not the same buffer as `x` */
  readonly outputs: Tensor;
  readonly outputsStride: number;
}

/**
 * What `expertCombine` makes of rows whose pairs are sorted, bit for bit, in one launch.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows. Undefined where
 * the device binds too few buffers to a kernel.
 *
 * @throws {KernelError} when there are several slabs, or the weights are not behind the pairs.
 */
export function tileCombine(
  recorder: Recorder,
  options: TileCombineOptions,
): ((rows: number) => void) | undefined {
  const { xStride, weights, residual, sortedPairs, tiles, outputs, outputsStride } = options;
  if (recorder.device.limits.maxStorageBuffersPerShaderStage < BUFFERS) return undefined;
  requireMultiplesOf4(NAME, { xStride });
  const { byTile } = tileForms(weights, {
    tileSizes: [pairTile(weights)],
    forms: options.forms,
    rowLanes: combineLanes(residual),
  });
  const [form] = byTile;
  const { input, tensors, width, ...launch } = combineLaunch(NAME, sortedPairs, form!, options);
  const bound = kernels(input, form!).bind(
    recorder,
    { ...tensors, tiles, outputs },
    {
      ...launch,
      constants: {
        ...launch.constants,
        WORKGROUP_ROWS: STREAM_BYTES / VECTOR_BYTES / rowLanes(form!),
      },
      params: { ...launch.params, outputs_stride: outputsStride },
    },
  );
  return (rows) => {
    bound.set("rows", rows);
    bound.record(width);
  };
}
