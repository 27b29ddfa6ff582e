import { expect, test } from "vitest";
import { exchangeOptions } from "../../kernels/attention/check_tuning.ts";
import { gqaDecode } from "../../kernels/attention/gqa_decode.ts";
import { gqaOptions, gqaRows, gqaSplits } from "../../kernels/attention/gqa_reference.ts";
import check from "../../kernels/attention/gqa_write_decode.check.ts";
import { gqaWriteDecode } from "../../kernels/attention/gqa_write_decode.ts";
import { vectorOptions } from "../../kernels/cache/gqa_vectors_reference.ts";
import { gqaWrite } from "../../kernels/cache/gqa_write.ts";
import { Recorder } from "../../src/gpu/recorder.ts";
import { device, fullTest, smallestCaseOnly } from "../support/gpu.ts";
import { runCase } from "../support/kernel_outcome.ts";
import { blank } from "../support/mla.ts";

/** The same answers by the two launches that one stands for. */
const apart: typeof check = {
  ...check,
  bind(recorder, shape, tensors, tuning) {
    const attention = gqaOptions(shape, tensors);
    const { queryStride } = attention;
    const query = { query: blank(gqaRows(shape) * queryStride), queryStride };
    const write = gqaWrite(recorder, { ...vectorOptions(shape, tensors), ...query });
    const decode = gqaDecode(recorder, {
      ...{ ...attention, ...query, partials: tensors.partials! },
      ...exchangeOptions(recorder.device, tuning),
    });
    return () => {
      write(gqaRows(shape));
      decode(gqaRows(shape), gqaSplits(shape));
    };
  },
};

/** Without the full run: splits with norms and sinks, FP8, a window and eight heads of a group. */
const cases = check.cases.filter((_, c) => fullTest || [0, 3, 5].includes(c));

test.each(smallestCaseOnly ? cases.slice(0, 1) : cases)(
  "contexts and the cache have the bits of two launches: $heads heads on $kvHeads, $dtype, case %#",
  async (shape) => {
    for (const tuning of check.tunings.slice(0, fullTest ? 4 : 1)) {
      const want = await runCase(device, apart, { shape, tuning });
      expect(want.error, want.where).toBeLessThanOrEqual(check.tolerance);
      const got = await runCase(device, check, { shape, tuning });
      expect(got.bits).toEqual(want.bits);
    }
  },
);

test("one workgroup has all queries of its key head, or two launches stay", () => {
  const recorder = new Recorder(device, { maxLaunches: 4 });
  const shape = check.cases[0]!;
  const tensors = new Proxy({}, { get: () => blank(64) });
  const fits = (headDim: number, rowHeads: number) => {
    const options = { ...gqaOptions(shape, tensors), ...vectorOptions(shape, tensors) };
    const tuning = exchangeOptions(device, { lanes: 32, rowHeads });
    return gqaWriteDecode(recorder, { ...options, headDim, ...tuning }) !== undefined;
  };
  const { heads, kvHeads, headDim } = shape;
  expect(fits(headDim, heads / kvHeads)).toBe(true);
  expect(fits(headDim, heads / kvHeads - 1)).toBe(false);
  const { maxComputeWorkgroupStorageSize: most } = device.limits;
  expect(fits(most / 4 / (heads / kvHeads), heads / kvHeads)).toBe(false);
  recorder.destroy();
});
