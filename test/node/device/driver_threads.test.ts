import { expect, test } from "vitest";
import { driverThreadsFor } from "../../../src/node/device/driver_threads.ts";
import { EMBEDDED_MODEL } from "../../support/checkpoints/embedded_model.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";

test("driverThreadsFor() keeps small models on the driver's own thread", async () => {
  expect(await driverThreadsFor(folderSource(EMBEDDED_MODEL))).toBe(0);
  const large = {
    ...folderSource(EMBEDDED_MODEL),
    list: async () => [
      { name: "model-00001-of-00002.safetensors", size: 40 * 2 ** 20 },
      { name: "model-00002-of-00002.safetensors", size: 40 * 2 ** 20 },
    ],
  };
  expect(await driverThreadsFor(large)).toBeUndefined();
});
