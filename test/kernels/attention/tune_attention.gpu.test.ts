import { expect, test } from "vitest";
import { tuneAttention } from "../../../kernels/tune_attention.ts";
import { requireTuning } from "../../../src/gpu/require_tuning.ts";
import { PLAIN_TUNING } from "../../../src/gpu/tuning.ts";
import { device, fullTest } from "../../support/devices/gpu.ts";

// Dozens of pipelines.
test.skipIf(!fullTest)("finds a way to share out attention that may be stored", async () => {
  const attention = await tuneAttention(device, { keys: 320, milliseconds: 1 });
  const tuning = { ...PLAIN_TUNING, attention };
  expect(requireTuning(JSON.parse(JSON.stringify(tuning)))).toEqual(tuning);
});
