import { expect, test, vi } from "vitest";
import { DEFAULT_LAYOUT, layoutFor } from "../../kernels/linear/weights/layout.ts";
import { selfTest } from "../../kernels/self_test.ts";
import { DeviceError } from "../../src/errors.ts";
import { Recorder } from "../../src/gpu/recorder.ts";
import { PLAIN_TUNING } from "../../src/gpu/tuning.ts";
import { device } from "../support/devices/gpu.ts";

const createShaderModule = device.createShaderModule.bind(device);

/** The report on this adapter with a fault planted in every kernel that holds the text. */
async function withFault(fault: string, instead: string, kernel = /./) {
  let planted = false;
  const rewrite = (name: string, code: string) => {
    if (!kernel.test(name) || !code.includes(fault)) return code;
    planted = true;
    return code.replaceAll(fault, () => instead);
  };
  const recorder = new Recorder(device, { maxLaunches: 256, rewrite });
  try {
    return await selfTest(device, { recorder, dtypes: ["fp8"], layout: DEFAULT_LAYOUT });
  } finally {
    recorder.destroy();
    expect(planted, "the text to replace is not there").toBe(true);
  }
}

test("finds nothing wrong with this adapter", async () => {
  const progress: (readonly number[])[] = [];
  const report = await selfTest(device, { onProgress: (...numbers) => progress.push(numbers) });
  expect(progress).toEqual([
    [1, 3],
    [2, 3],
    [3, 3],
  ]);
  expect(report.failures).toEqual([]);
  expect(report).toMatchObject({ fp8Decode: "half", batchInvariant: true });
  expect(report.subgroupSize).toBe(layoutFor(device).subgroupSize);
});

test("finds nothing wrong with weights of 8 and 4 bits", async () => {
  const report = await selfTest(device, { dtypes: ["int8", "int4", "mxfp4"], groupColumns: 32 });
  expect(report.failures).toEqual([]);
  expect(report.batchInvariant).toBe(true);
  expect(report.subgroupSize).toBe(layoutFor(device).subgroupSize);
});

test.each([
  ["int8", "bitcast<vec4i>(high) >>", "high >>"],
  ["int4", "f32(scale_word & ZERO_MASK)", "0.0"],
  ["mxfp4", "8u * (group % 4u)", "0u"],
] as const)("refuses an adapter that gets %s weights wrong", async (dtype, fault, instead) => {
  const rewrite = (_: string, code: string) => code.replaceAll(fault, () => instead);
  const recorder = new Recorder(device, { maxLaunches: 256, rewrite });
  const wrong = selfTest(device, { recorder, dtypes: [dtype], layout: DEFAULT_LAYOUT });
  await expect(wrong).rejects.toThrow(`the ${dtype} kernels give wrong numbers`);
  recorder.destroy();
});

test("chooses the other FP8 decoder where the first one is wrong", async () => {
  const report = await withFault("word & 0x007f007fu", "word & 0x00780078u", /probe/);
  expect(report.fp8Decode).toBe("bits");
  expect(report.batchInvariant).toBe(true);
  expect(report.failures).toEqual([expect.stringContaining("of 256 codes wrong")]);
});

test("takes int8 codes where their products are there and right", async () => {
  const layout = { ...DEFAULT_LAYOUT, packedDots: true };
  const test = (dtype: "int8" | "fp8", rewrite?: (name: string, code: string) => string) => {
    const recorder = new Recorder(device, { maxLaunches: 256, ...(rewrite && { rewrite }) });
    return selfTest(device, { recorder, dtypes: [dtype], layout }).finally(() =>
      recorder.destroy(),
    );
  };
  expect((await test("int8")).packedDots).toBe(true);
  expect((await test("fp8")).packedDots).toBe(false);
  const wrong = await test("int8", (_, code) =>
    code.replaceAll("right[invocation])", "right[invocation]) & 0xffff"));
  expect(wrong).toMatchObject({ packedDots: false, batchInvariant: true, failures: [] });
  const spy = vi.spyOn(device, "createShaderModule").mockImplementation((descriptor) => {
    const isUnknown = descriptor.code.includes("dot4I8Packed");
    return createShaderModule(isUnknown ? { code: "no shader" } : descriptor);
  });
  expect((await test("int8")).packedDots).toBe(false);
  spy.mockRestore();
});

const CLASSES = device.features.has("shader-f16") ? ["fma128", "f16"] : ["fma128"];

test.each(CLASSES)("does without subgroups where they give other bits: %s", async (name) => {
  // Drivers without arithmetic in f16 take seconds to compile a form of more rows.
  const tuning = { ...PLAIN_TUNING, rowForms: PLAIN_TUNING.rowForms.slice(0, 1) };
  const layout = { ...layoutFor(device, tuning), halfProducts: name === "f16" };
  const right = await selfTest(device, { layout, dtypes: ["fp8"] });
  expect(right).toMatchObject({ subgroupSize: layout.subgroupSize, batchInvariant: true });
  const rewrite = (_: string, code: string) =>
    code.includes("enable subgroups") ? code.replaceAll("return 256.0 *", "return 255.0 *") : code;
  const recorder = new Recorder(device, { maxLaunches: 256, rewrite });
  const report = await selfTest(device, { recorder, layout, dtypes: ["fp8"] });
  recorder.destroy();
  expect(report).toMatchObject({ subgroupSize: undefined, batchInvariant: true, failures: [] });
});

test("does without subgroups where no kernel with them compiles", async () => {
  const rewrite = (_: string, code: string) =>
    code.includes("enable subgroups") ? code.replaceAll("fn main", "fn man") : code;
  const recorder = new Recorder(device, { maxLaunches: 256, rewrite });
  const report = await selfTest(device, { recorder, dtypes: ["fp8", "bf16"] });
  recorder.destroy();
  expect(report).toMatchObject({ subgroupSize: undefined, batchInvariant: true, failures: [] });
});

test("reports linears whose bits depend on the rows at once", async () => {
  // With several rows at once, another order of the last additions.
  const order = "(chains.x + chains.y) + (chains.z + chains.w)";
  const other =
    "select((chains.x + chains.z) + (chains.y + chains.w), " + order + ", TOKENS == 1u)";
  const report = await withFault(order, other, /linear/);
  expect(report.batchInvariant).toBe(false);
  expect(report.failures).toContainEqual(expect.stringContaining("rows at once than for one"));
});

test.each([
  ["a broken reduction", "half > 0u", "half > 1u", /probe/],
  ["wrong numbers from the base kernels", "return 256.0 *", "return 255.0 *", /linear/],
  ["a kernel that does not compile", "fn main", "fn man", /linear/],
] as const)("refuses the adapter for %s", async (_, fault, instead, kernel) => {
  const failure = withFault(fault, instead, kernel);
  await expect(failure).rejects.toThrow(DeviceError);
  await expect(failure).rejects.toThrow(/^Cannot use this adapter: /);
});
