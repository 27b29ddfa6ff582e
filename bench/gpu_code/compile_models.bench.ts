/**
 * Compiles the kernels of whole models by the tuning of the adapter that is there, which is one of a
 * GPU that is not: `npm run gpu-code` and the tests of budgets start it (see capture.ts). Nothing runs,
 * so that what the self-test would find is taken as good.
 *
 * WISP_GPU_MODELS: names, with commas; WISP_GPU_TUNING: fields of a tuning, JSON, in place of the
 * adapter's; WISP_GPU_PLANTED: what is changed in the kernels' texts, JSON.
 *
 * @module
 */
import { describe, expect, test, vi } from "vitest";
import type { SelfTestOptions, SelfTestReport } from "../../kernels/self_test.ts";
import { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import { compileKernels } from "../../src/engine/load/compile_kernels.ts";
import { SUBGROUP_MATRIX } from "../../src/gpu/device.ts";
import { tuningFor } from "../../src/gpu/tuning.ts";
import { device } from "../../test/support/devices/gpu.ts";
import { syntheticSource } from "../../test/support/synthetic/source.ts";
import type { PlantedText } from "./capture.ts";
import { COMPILED_MODELS } from "./compiled_models.ts";

vi.mock("../../kernels/self_test.ts", async (original) => ({
  ...(await original<object>()),
  selfTest: async (_: GPUDevice, { layout }: SelfTestOptions): Promise<SelfTestReport> => ({
    fp8Decode: "half",
    subgroupSize: layout?.subgroupSize,
    askedSubgroupSize: layout?.askedSubgroupSize,
    packedDots: layout?.packedDots ?? false,
    batchInvariant: true,
    failures: [],
  }),
}));

const names = process.env.WISP_GPU_MODELS?.split(",");
const isWanted = (name: string) => names?.includes(name) ?? true;
const hasMatrices = device.features.has(SUBGROUP_MATRIX);
const models = COMPILED_MODELS.filter(
  ({ name, needsMatrices = false }) => isWanted(name) && (hasMatrices || !needsMatrices),
);
const tuning = {
  ...tuningFor(device.adapterInfo),
  ...JSON.parse(process.env.WISP_GPU_TUNING ?? "{}"),
};
/** More than any of the models takes. */
const DEVICE_MEMORY = 2 ** 40;
const TIMEOUT = 600_000;

const planted: readonly PlantedText[] = JSON.parse(process.env.WISP_GPU_PLANTED ?? "[]");
const make = device.createShaderModule.bind(device);
device.createShaderModule = ({ code, ...descriptor }) =>
  make({
    ...descriptor,
    code: planted.reduce((text, one) => text.replaceAll(one.replace, one.with), code),
  });
const compile = device.createComputePipelineAsync.bind(device);

describe.runIf(process.env.WISP_GPU_CODE !== undefined)("compiling for an absent GPU", () => {
  test.each(models)(
    "$name",
    async ({ name, model, options }) => {
      device.createComputePipelineAsync = (descriptor) =>
        compile({ ...descriptor, label: `${name} ${descriptor.label}` });
      const checkpoint = await Checkpoint.open(syntheticSource(model(), 7));
      const { pipelines } = await compileKernels(checkpoint, {
        device,
        deviceMemory: DEVICE_MEMORY,
        contextLength: 4096,
        maxTotalTokens: 8192,
        maxRowsPerStep: 1024,
        pageSize: 16,
        tuning,
        ...options?.(device),
      });
      expect(pipelines.length).toBeGreaterThan(10);
    },
    TIMEOUT,
  );
});
