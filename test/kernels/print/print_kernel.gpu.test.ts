/** What `npm run kernel` prints beside what this device is given, which takes it with its banners. */
import { afterEach, expect, test, vi } from "vitest";
import { assembledKernels } from "../../../kernels/print/assembled_kernels.ts";
import { partsOf, withBanners } from "../../../kernels/print/kernel_parts.ts";
import { KERNEL_CHECKS, KERNEL_FILES } from "../../../kernels/print/print_kernel.ts";
import { Recorder } from "../../../src/gpu/recorder.ts";
import { device } from "../../support/devices/gpu.ts";
import { destroyTensors, uploadArrays } from "../../support/devices/kernel_outcome.ts";
import { seeded } from "../../support/seeded.ts";

const most = device.limits.maxStorageBuffersPerShaderStage;
const checks = [...KERNEL_CHECKS.values()]
  .filter(({ feature }) => feature === undefined || device.features.has(feature))
  .filter(({ storageBuffers = 0 }) => storageBuffers <= most);

afterEach(() => vi.restoreAllMocks());

test.each(["attention/mla_decode", "linear/linear forms", "moe/expert_combine", "cache/gqa_write"])(
  "%s: a device is given the text that is printed for it",
  (name) => {
    const check = KERNEL_CHECKS.get(name)!;
    const [shape] = check.cases as readonly [object];
    const inputs = check.inputs(shape, seeded(1));
    const tensors = uploadArrays(device, { inputs, want: check.reference(shape, inputs) });
    // Only texts are wanted: to compile them for a launch takes drivers long.
    vi.spyOn(device, "createComputePipelineAsync").mockResolvedValue({} as GPUComputePipeline);
    for (const tuning of check.tunings) {
      const given = vi.spyOn(device, "createShaderModule");
      const recorder = new Recorder(device, { maxLaunches: 64 });
      check.bind(recorder, shape, tensors, tuning);
      const printed = assembledKernels(check, { shape, tuning }, device).map(({ code }) => code);
      expect(given.mock.calls.map(([{ code }]) => code)).toEqual(printed);
      given.mockRestore();
      recorder.destroy();
    }
    destroyTensors(tensors);
  },
);

test.each(checks)("$name: the printed texts compile", async (check) => {
  const [shape] = check.cases as readonly [object];
  const [tuning] = check.tunings as readonly [Readonly<Record<string, number>>];
  const requests = assembledKernels(check, { shape, tuning }, device);
  expect(requests.length).toBeGreaterThan(0);
  for (const { code } of requests) {
    const printed = withBanners(partsOf(code, KERNEL_FILES));
    expect(printed).toContain("//| ---- kernels/");
    const module = device.createShaderModule({ code: printed });
    const { messages } = await module.getCompilationInfo();
    expect(messages.map(({ message }) => message)).toEqual([]);
  }
});
