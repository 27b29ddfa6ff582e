import { expect, test } from "vitest";
import { mergingLinear } from "../../../kernels/linear/merging_linear.ts";
import { paddedRows } from "../../../kernels/linear/weights/weight_order.ts";
import { Recorder } from "../../../src/gpu/recorder.ts";
import { allocateTensor } from "../../../src/gpu/tensor.ts";
import { device } from "../../support/devices/gpu.ts";

const LANES = 8;
/** Floats of a fourth of a workgroup's memory. */
const QUARTER = device.limits.maxComputeWorkgroupStorageSize / 16;

test.each([
  ["a whole slice", { groupRows: 128, columns: 512, roundOutputs: true }, true],
  ["four whole slices", { groupRows: 32, columns: 128, roundOutputs: true }, true],
  ["slices that lie in two groups", { groupRows: 96, columns: 128, roundOutputs: true }, false],
  ["groups with parts of two slices", { groupRows: 192, columns: 128, roundOutputs: true }, false],
  ["a run of lanes with two slices", { groupRows: 16, columns: 128, roundOutputs: true }, false],
  ["more slices than have room", { groupRows: 32, columns: QUARTER, roundOutputs: true }, false],
  ["one of those slices", { groupRows: 32, columns: QUARTER, roundOutputs: false }, true],
  ["any slices, not rounded", { groupRows: 96, columns: 128, roundOutputs: false }, true],
])("a linear merges %s, or says that it does not", (_, options, merges) => {
  const { groupRows, columns } = options;
  const recorder = new Recorder(device, { maxLaunches: 16 });
  const spare = allocateTensor(device, 1024, "never launched");
  const rows = 4 * groupRows;
  const shape = { dtype: "f32", rows, columns, lanes: LANES } as const;
  const launch = mergingLinear(recorder, {
    ...{ ...options, partials: spare, rows: spare, splitLength: 8, out: spare, outStride: rows },
    weight: { ...shape, rowsPadded: paddedRows(rows, { lanes: LANES }), words: spare },
  });
  expect(launch !== undefined).toBe(merges);
  recorder.destroy();
  spare.buffer.destroy();
});
