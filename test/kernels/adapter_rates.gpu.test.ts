import { expect, test } from "vitest";
import { measureRates } from "../../kernels/adapter_rates.ts";
import { device } from "../support/devices/gpu.ts";

test("finds rates that an adapter can have", async () => {
  const { copy, fma } = await measureRates(device);
  // From a slow core to more than any GPU there is.
  expect(copy).toBeGreaterThan(1e7);
  expect(copy).toBeLessThan(1e14);
  expect(fma).toBeGreaterThan(1e7);
  expect(fma).toBeLessThan(1e16);
});
