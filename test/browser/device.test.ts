import { afterEach, expect, test, vi } from "vitest";
import { openDevice } from "../../src/browser/device.ts";
import { DeviceError } from "../../src/errors.ts";

afterEach(() => vi.unstubAllGlobals());

/** What `openDevice` asks of an adapter with small limits and no features. */
function adapter(requestDevice: (descriptor: GPUDeviceDescriptor) => Promise<unknown>) {
  const limits = new Proxy({}, { get: () => 8 });
  return { limits, features: new Set(["shader-f16"]), requestDevice };
}

function offer(found: unknown): void {
  vi.stubGlobal("navigator", { gpu: { requestAdapter: async () => found } });
}

test("openDevice asks for the adapter's own limits and features", async () => {
  let asked: GPUDeviceDescriptor | undefined;
  const device = {};
  offer(
    adapter(async (descriptor) => {
      asked = descriptor;
      return device;
    }),
  );
  expect(await openDevice()).toBe(device);
  expect(asked?.requiredFeatures).toEqual(["shader-f16"]);
  expect(new Set(Object.values(asked?.requiredLimits ?? {}))).toEqual(new Set([8]));
});

test.each<[string, () => void]>([
  [
    "Cannot find a GPU adapter: this browser or page has no WebGPU",
    () => vi.stubGlobal("navigator", {}),
  ],
  ["Cannot find a GPU adapter: the browser offers none on this machine", () => offer(null)],
  [
    "Cannot open a device: too many",
    () => offer(adapter(() => Promise.reject(new Error("too many")))),
  ],
])("openDevice says: %s", async (message, prepare) => {
  prepare();
  const error = await openDevice().catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(DeviceError);
  expect((error as Error).message).toBe(message);
});
