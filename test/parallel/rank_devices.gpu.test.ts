/** Ranks of one process with a device each: the answers of one, and another one for any that is lost. */
import { expect, test } from "vitest";
import type { LoadOptions } from "../../src/engine/load/load_options.ts";
import { deviceFactory } from "../../src/node/device/device.ts";
import { device, smallestCaseOnly } from "../support/devices/gpu.ts";
import { complete, openEngine } from "../support/engines/engine.ts";

const OPTIONS = { maxTotalTokens: 512, pageSize: 4, maxRowsPerStep: 32 };
const load = (options: Partial<LoadOptions>) => openEngine({ ...OPTIONS, ...options });
const STORY = {
  prompt: "Once upon a time",
  sampling: { maxNewTokens: 60, temperature: 0.8, seed: 4, ignoreEos: true },
};

test.each([
  [[0], "there are 2 ranks"],
  [[0, -1], "each must be a whole number, 0 or more"],
  [[0, 1], "device has to be a factory, which opens them"],
])("places %j are refused: %s", async (rankDevices, why) => {
  const refused = load({ device, tensorParallelSize: 2, rankDevices });
  await expect(refused).rejects.toThrow(`Cannot use rankDevices [${rankDevices}]: ${why}`);
});

test.skipIf(smallestCaseOnly)(
  "ranks with a device each answer as one, also when one of theirs is lost",
  async () => {
    const alone = await load({ device });
    const want = (await complete(alone, STORY)).text;
    await alone.close();

    const open = deviceFactory();
    const opened: { readonly which: number; readonly device: GPUDevice }[] = [];
    const engine = await load({
      tensorParallelSize: 2,
      rankDevices: [0, 2],
      device: async (which) => {
        opened.push({ which, device: await open() });
        return opened.at(-1)!.device;
      },
    });
    expect(opened.map(({ which }) => which)).toEqual([0, 2]);
    expect((await complete(engine, STORY)).text).toBe(want);

    const running = engine.generate(STORY);
    let text = (await running.next()).value!.text;
    opened[1]!.device.destroy();
    for await (const chunk of running) text += chunk.text;
    expect(text).toBe(want);
    expect(opened.map(({ which }) => which)).toEqual([0, 2, 0, 2]);
    await opened[0]!.device.lost; // it is let go of with the other
    expect(engine.status()).toMatchObject({ healthy: true, recoveries: 1 });
    await engine.close();
  },
);
