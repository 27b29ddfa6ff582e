import { expect, test, vi } from "vitest";
import { Kernel } from "../../src/gpu/kernel.ts";
import { PipelineCache } from "../../src/gpu/pipeline_cache.ts";
import { Recorder } from "../../src/gpu/recorder.ts";
import { allocateTensor } from "../../src/gpu/tensor.ts";
import { facade } from "../support/devices/facade.ts";
import { device, download } from "../support/devices/gpu.ts";

// Would never end on one workgroup: nothing steps on while `step` is zero.
const source = `
const SCALE = 2u;

struct Params {
  step: u32,
}

@group(0) @binding(0) var<storage, read> x: array<vec4f>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(1)
fn main() {
  for (var i = 0u; i < 10u; i += params.step) { out[i] = x[i].x * f32(SCALE) + 1.0; }
}
`;
const kernel = new Kernel({ name: "steps", source, buffers: ["x", "out"], params: ["step"] });

/** A recorder with the kernel in two forms, and where it would write. */
function twoForms(rewrite?: (name: string, code: string) => string) {
  const recorder = new Recorder(device, { maxLaunches: 16, ...(rewrite && { rewrite }) });
  const x = allocateTensor(device, 256, "x");
  const out = allocateTensor(device, 64, "out");
  for (const SCALE of [3, 5, 3]) kernel.bind(recorder, { x, out }, { constants: { SCALE } });
  return { recorder, out };
}

test("launchAll() launches each pipeline once, runs nothing and tells how far it is", async () => {
  const { recorder, out } = twoForms();
  const submit = vi.spyOn(device.queue, "submit");
  const progress: (readonly number[])[] = [];
  const launched = await recorder.pipelines.launchAll((...numbers) => progress.push(numbers));
  expect(submit).toHaveBeenCalledTimes(2);
  submit.mockRestore();
  expect(progress).toEqual([
    [1, 2],
    [2, 2],
  ]);
  expect(launched.map(({ label }) => label).sort()).toEqual([
    'steps {"SCALE":3}',
    'steps {"SCALE":5}',
  ]);
  for (const { milliseconds } of launched) expect(milliseconds).toBeGreaterThanOrEqual(0);
  expect(new Float32Array(await download(out.buffer))).toEqual(new Float32Array(16));
  recorder.destroy();
});

test("launchAll() names the kernel that does not compile", async () => {
  const { recorder } = twoForms((_, code) => code.replace("SCALE = 5u", "SCALE = five"));
  await expect(recorder.pipelines.launchAll()).rejects.toThrow(
    /Cannot use kernel "steps {"SCALE":5}/,
  );
  recorder.destroy();
});

test("launchAll() names the kernel that the device refuses to launch", async () => {
  // More than anything binds: the launch asks for it, the compiler does not.
  const { recorder } = twoForms((_, code) =>
    code.replace("array<vec4f>", "array<vec4f, 99999>").replace("x[i].x", "x[i % 99999u].x"),
  );
  device.pushErrorScope("validation"); // of the groups that the wrapper binds
  await expect(recorder.pipelines.launchAll()).rejects.toThrow(/Cannot use kernel "steps"/);
  await device.popErrorScope();
  recorder.destroy();
});

test("a subgroup size that the adapter lists and refuses is asked for once", async () => {
  const codes: string[] = [];
  const intel = { vendor: "intel", subgroupMinSize: 8, subgroupMaxSize: 32 };
  const features = new Set([...device.features, "subgroups", "subgroup-size-control"]);
  const asking = facade(device, {
    features,
    adapterInfo: { ...intel, architecture: "", device: "", description: "" },
    createShaderModule: (descriptor: GPUShaderModuleDescriptor) => {
      codes.push(descriptor.code);
      const refused = descriptor.code.includes("@subgroup_size(8)");
      return device.createShaderModule(refused ? { code: "refused" } : descriptor);
    },
  });
  const cache = new PipelineCache(asking);
  const request = { kernel: "steps", constants: {}, buffers: ["uniform"] as const };
  const [first, second] = ["0u", "1u"].map(
    (value) => `@compute @workgroup_size(1)\nfn main() { _ = ${value}; }`,
  );
  const entry = cache.get({ ...request, code: first! });
  await cache.ready();
  expect(entry.pipeline).toBeDefined();
  expect(codes.map((code) => code.includes("@subgroup_size(8)"))).toEqual([true, false]);
  cache.get({ ...request, code: second! });
  await cache.ready();
  expect(codes).toHaveLength(3);
  expect(codes[2]).toBe(second);
});
