import { afterEach, expect, test, vi } from "vitest";
import { deviceFactory, inspectAdapter, openDevice } from "../../../src/browser/device.ts";
import { DeviceError, InvalidRequestError } from "../../../src/errors.ts";
import { finished } from "../../../src/gpu/submit_poll.ts";

afterEach(() => vi.unstubAllGlobals());

const FIREFOX = "Mozilla/5.0 (X11; Linux x86_64; rv:153.0) Gecko/20100101 Firefox/153.0";
const CHROMIUM = "Mozilla/5.0 (X11; Linux x86_64) AppleWebKit/537.36 Chrome/147.0 Safari/537.36";

/** What `openDevice` asks of an adapter with small limits and no features. */
function adapter(requestDevice: (descriptor: GPUDeviceDescriptor) => Promise<unknown>) {
  const limits = new Proxy({}, { get: () => 8 });
  return { limits, features: new Set(["shader-f16"]), requestDevice };
}

function offer(found: unknown, userAgent = CHROMIUM) {
  const requestAdapter = vi.fn(async (_: GPURequestAdapterOptions) => found);
  vi.stubGlobal("navigator", { userAgent, gpu: { requestAdapter } });
  return requestAdapter;
}

test("openDevice asks for the adapter's own limits and features", async () => {
  let asked: GPUDeviceDescriptor | undefined;
  const device = {};
  const requestAdapter = offer(
    adapter(async (descriptor) => {
      asked = descriptor;
      return device;
    }),
  );
  expect(await openDevice()).toBe(device);
  expect(asked?.requiredFeatures).toEqual(["shader-f16"]);
  expect(new Set(Object.values(asked?.requiredLimits ?? {}))).toEqual(new Set([8]));
  expect(await deviceFactory({ powerPreference: "low-power" })()).toBe(device);
  expect(requestAdapter.mock.calls).toEqual([
    [{ powerPreference: "high-performance" }],
    [{ powerPreference: "low-power" }],
  ]);
});

test.each<[string, () => void]>([
  [
    "Cannot find a GPU adapter: browsers have WebGPU on secure pages only, those of https:// or of localhost",
    () => {
      vi.stubGlobal("navigator", {});
      vi.stubGlobal("isSecureContext", false);
    },
  ],
  [
    "Cannot find a GPU adapter: this browser has no WebGPU",
    () => {
      vi.stubGlobal("navigator", {});
      vi.stubGlobal("document", {});
    },
  ],
  [
    "Cannot find a GPU adapter: this browser has no WebGPU in workers",
    () => vi.stubGlobal("navigator", {}),
  ],
  [
    "Cannot find a GPU adapter: the browser offers none on this machine; it may have hardware " +
      "acceleration switched off, or block this GPU's driver",
    () => offer(null),
  ],
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

test.each([
  ["powerPreference", { powerPreference: "most" as GPUPowerPreference }],
  ["adapter", { adapter: "lavapipe" } as object],
])("openDevice refuses %s", async (field, options) => {
  offer(adapter(async () => ({})));
  const error = await openDevice(options).catch((reason: unknown) => reason);
  expect(error).toBeInstanceOf(InvalidRequestError);
  expect(error).toMatchObject({ field, message: expect.stringContaining(field) });
});

test("inspectAdapter tells what the browser tells, and warns of a CPU", async () => {
  const info = { vendor: "google", architecture: "swiftshader", device: "", description: "" };
  class Limits {
    get maxBufferSize() {
      return 64;
    }
  }
  // Of real adapters they can be enumerated.
  Object.defineProperty(Limits.prototype, "maxBufferSize", { enumerable: true });
  const features = new Set(["subgroups", "shader-f16"]);
  const cpu = { info: { ...info, isFallbackAdapter: true }, features, limits: new Limits() };
  offer(cpu);
  expect(await inspectAdapter()).toEqual({
    name: "SwiftShader",
    vendor: "google",
    architecture: "swiftshader",
    driver: "",
    isCpu: true,
    features: ["shader-f16", "subgroups"],
    limits: { maxBufferSize: 64 },
    warning: expect.stringMatching(/^Answers will be slow: SwiftShader computes on the CPU/),
  });
  const gpu = { vendor: "nvidia", architecture: "lovelace", device: "", description: "" };
  offer({ ...cpu, info: { ...gpu, isFallbackAdapter: false } });
  expect(await inspectAdapter()).toMatchObject({
    ...{ name: "lovelace", isCpu: false, warning: undefined },
  });
});

test.each([
  ["Firefox", FIREFOX, true],
  ["Chromium", CHROMIUM, false],
])("in %s, waits submit nothing over and over: %s, %s", async (_, userAgent, polls) => {
  const submit = vi.fn();
  const device = { createCommandEncoder: () => ({ finish: () => ({}) }), queue: { submit } };
  offer(
    adapter(async () => device),
    userAgent,
  );
  const opened = await openDevice();
  await finished(opened, new Promise((resolve) => setTimeout(resolve, 20)));
  expect(submit.mock.calls.length > 0).toBe(polls);
});
