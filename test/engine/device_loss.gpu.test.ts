import { expect, test } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import { DeviceError } from "../../src/errors.ts";
import { openDevice } from "../../src/node/device.ts";
import { chat, EMBEDDED_MODEL } from "../support/engine.ts";
import { folderSource } from "../support/folder_source.ts";

test("a lost device ends running and later requests with a DeviceError", async () => {
  const { device } = await openDevice();
  const engine = await Engine.load(folderSource(EMBEDDED_MODEL), { device, maxTotalTokens: 4096 });
  const request = {
    messages: chat("Tell me a story."),
    sampling: { maxNewTokens: 500, ignoreEos: true },
  };
  const running = engine.generate(request);
  for (let i = 0; i < 3; i++) await running.next();
  device.destroy();
  const drain = async () => {
    for await (const _ of running);
  };
  await expect(drain()).rejects.toBeInstanceOf(DeviceError);
  await expect(engine.generate(request).next()).rejects.toBeInstanceOf(DeviceError);
  expect(engine.status()).toMatchObject({ healthy: false, runningRequests: 0 });
  await engine.close();
});
