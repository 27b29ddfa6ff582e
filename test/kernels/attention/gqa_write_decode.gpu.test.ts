import { expect, test } from "vitest";
import { exchangeOptions } from "../../../kernels/attention/check_tuning.ts";
import { gqaOptions } from "../../../kernels/attention/gqa/gqa_reference.ts";
import check from "../../../kernels/attention/gqa/gqa_write_decode.check.ts";
import { gqaWriteDecode } from "../../../kernels/attention/gqa/gqa_write_decode.ts";
import { vectorOptions } from "../../../kernels/cache/gqa_vectors_reference.ts";
import { Recorder } from "../../../src/gpu/recorder.ts";
import { device, fullTest, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { runCase } from "../../support/devices/kernel_outcome.ts";
import { gqaApart } from "../../support/reference/gqa_apart.ts";
import { blank } from "../../support/reference/mla.ts";

/** Without the full run: splits with norms and sinks, FP8, a window and eight heads of a group. */
const cases = check.cases.filter((_, c) => fullTest || [0, 3, 5].includes(c));
const wanted = smallestCaseOnly ? cases.slice(0, 1) : cases;
/** A key head's queries in one workgroup, and in several: two or three, some of which are not full. */
const tunings = fullTest
  ? check.tunings
  : [{ subgroups: 1 }, { lanes: 16, rowHeads: 2 }].slice(smallestCaseOnly ? 1 : 0);

test.each(wanted)(
  "contexts and the cache have the bits of two launches: $heads heads on $kvHeads, $dtype, case %#",
  async (shape) => {
    const want = await runCase(device, gqaApart, { shape, tuning: tunings[0]! });
    expect(want.error, want.where).toBeLessThanOrEqual(check.tolerance);
    for (const tuning of tunings) {
      const got = await runCase(device, check, { shape, tuning });
      expect(got.bits, JSON.stringify(tuning)).toEqual(want.bits);
    }
  },
);

test("workgroups that share a key head do not read what one of them writes", async () => {
  // Nothing is written, and what lies there is not a number.
  const write = "if !SHARES || is_first {";
  let planted = false;
  const rewrite = (_: string, code: string) => {
    planted ||= code.includes(write);
    return code.replace(write, "if !SHARES {");
  };
  for (const shape of wanted) {
    const tuning = { lanes: 8, rowHeads: 2 };
    const own: typeof check = {
      ...check,
      reference: (one, inputs) => ({ out: check.reference(one, inputs).out! }),
    };
    const { error, where } = await runCase(device, own, { shape, tuning, rewrite });
    expect(error, where).toBeLessThanOrEqual(check.tolerance);
  }
  expect(planted, "the text to replace is not there").toBe(true);
});

test("a workgroup has room for what it holds, or two launches stay", () => {
  const recorder = new Recorder(device, { maxLaunches: 4 });
  const shape = check.cases[0]!;
  const tensors = new Proxy({}, { get: () => blank(64) });
  const fits = (headDim: number, rowHeads: number) => {
    const options = { ...gqaOptions(shape, tensors), ...vectorOptions(shape, tensors) };
    const tuning = exchangeOptions(device, { lanes: 32, rowHeads });
    return gqaWriteDecode(recorder, { ...options, headDim, ...tuning }) !== undefined;
  };
  const { heads, kvHeads, headDim } = shape;
  const all = heads / kvHeads;
  const { maxComputeWorkgroupStorageSize: most } = device.limits;
  for (const rowHeads of [all, all - 1, 1]) expect(fits(headDim, rowHeads)).toBe(true);
  expect(fits(most / 4 / all, all)).toBe(false);
  recorder.destroy();
});
