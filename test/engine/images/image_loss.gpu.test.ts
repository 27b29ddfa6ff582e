import { afterEach, describe, expect, test, vi } from "vitest";
import { VisionRunner } from "../../../src/models/vision/vision_runner.ts";
import { deviceFactory } from "../../../src/node/device/device.ts";
import {
  openVisionEngine,
  picture,
  see,
  VISION_MODEL,
} from "../../support/engines/vision_engine.ts";

const request = () => ({
  prompt: "<image>What is this?",
  images: [picture("tall.png")],
  sampling: { temperature: 0, maxNewTokens: 8, ignoreEos: true },
  logprobs: {},
});

/** The engine on devices that are lost with the pictures of these numbers, counted from the first. */
async function openLosing(isLost: (number: number) => boolean) {
  let device: GPUDevice | undefined;
  const open = deviceFactory();
  const engine = await openVisionEngine({
    device: async () => {
      device = await open();
      return device;
    },
    recoveryWaits: [0, 0, 0],
  });
  let count = 0;
  const { run } = VisionRunner.prototype;
  vi.spyOn(VisionRunner.prototype, "run").mockImplementation(function (
    this: VisionRunner,
    ...given
  ) {
    const rows = run.apply(this, given);
    if (isLost(count++)) device!.destroy();
    return rows;
  });
  return engine;
}

describe.skipIf(VISION_MODEL === undefined)("lost devices (needs ../shared/data)", () => {
  afterEach(() => {
    vi.restoreAllMocks();
  });

  test("a picture that was on its way is computed again, to the same bits", async () => {
    const engine = await openLosing((number) => number === 3);
    const got = await see(engine, request());
    expect(engine.status().recoveries).toBe(1);
    vi.restoreAllMocks();
    await engine.flushCache();
    const want = await see(engine, { ...request(), images: [picture("tall.png")] });
    expect(got).toEqual(want);
    await engine.close();
    const other = await openVisionEngine();
    expect((await see(other, request())).logprobs).toEqual(got.logprobs);
    await other.close();
  });

  test("an image that loses every device ends with an error, and no other request", async () => {
    const engine = await openLosing((number) => number < 3);
    await expect(see(engine, request())).rejects.toThrow(
      "Cannot read images[0]: the device was lost 3 times while it was computed",
    );
    const text = { prompt: "Hello", sampling: { maxNewTokens: 4, ignoreEos: true } };
    expect((await see(engine, text)).tokens.length).toBe(4);
    await engine.close();
  });
});
