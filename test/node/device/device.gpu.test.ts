import { expect, test } from "vitest";
import { listAdapters, openDevice } from "../../../src/node/device/device.ts";
import { adapter, device, download, seeded, upload } from "../../support/devices/gpu.ts";
import { gpuErrors } from "../../support/devices/gpu_errors.ts";

test("openDevice tells what the adapter is", () => {
  expect(adapter.name).not.toBe("");
  expect(["Vulkan", "Metal", "D3D12"]).toContain(adapter.backend);
  expect(typeof adapter.isCpu).toBe("boolean");
});

test("openDevice asks for limits above the defaults, and not above the caps", () => {
  expect(device.limits.maxBufferSize).toBeGreaterThanOrEqual(256 * 2 ** 20);
  expect(device.limits.maxStorageBufferBindingSize).toBeGreaterThanOrEqual(128 * 2 ** 20);
  expect(device.limits.maxStorageBuffersPerShaderStage).toBeLessThanOrEqual(10);
  expect(device.limits.maxComputeInvocationsPerWorkgroup).toBeLessThanOrEqual(1024);
});

test("openDevice opens several devices at once", async () => {
  const [first, second] = await Promise.all([openDevice(), openDevice()]);
  expect(first.device).not.toBe(second.device);
  first.device.destroy();
  second.device.destroy();
});

test.each(["lavapipe", "swiftshader"] as const)(
  "openDevice opens %s or says why not",
  async (name) => {
    try {
      const opened = await openDevice({ adapter: name });
      expect(opened.adapter.isCpu).toBe(true);
      expect(`${opened.adapter.name} ${opened.adapter.driver}`.toLowerCase()).toContain(
        name === "lavapipe" ? "llvmpipe" : "swiftshader",
      );
      opened.device.destroy();
    } catch (error) {
      expect((error as Error).message).toBe(
        `Cannot find adapter "${name}": no such driver works here`,
      );
    }
  },
);

test("adapters are listed, and each is opened by its number", async () => {
  const adapters = await listAdapters();
  expect(adapters).not.toEqual([]);
  for (const [number, { name, isCpu }] of adapters.entries()) {
    const opened = await openDevice({ number });
    expect(opened.adapter.isCpu).toBe(isCpu);
    // A GPU tells WebGPU another name than its driver does.
    if (isCpu) expect(name).toContain(opened.adapter.name);
    opened.device.destroy();
  }
});

test("openDevice opens a GPU and nothing else, or says that there is none", async () => {
  try {
    const opened = await openDevice({ adapter: "gpu" });
    expect(opened.adapter.isCpu).toBe(false);
    opened.device.destroy();
  } catch (error) {
    expect((error as Error).message).toBe('Cannot find adapter "gpu": no such driver works here');
  }
});

test("upload and download keep the bytes", async () => {
  const random = seeded(1);
  const data = Uint8Array.from({ length: 1001 }, () => random() * 256);
  const back = new Uint8Array(await download(upload(data)));
  expect(back.subarray(0, 1001)).toEqual(data);
  expect(back.length).toBe(1004);
});

test("the shared device reports an error that no scope caught", async () => {
  device.createBuffer({ size: 4, usage: 0 });
  await gpuErrors.flush();
  expect(gpuErrors.messages).toHaveLength(1);
  gpuErrors.messages.length = 0;
});
