/**
 * Runs before every test file: a test fails when it leaves a WebGPU error behind.
 *
 * @module
 */

import { afterEach, beforeEach, expect } from "vitest";
import { gpuErrors } from "./devices/gpu_errors.ts";

beforeEach(() => {
  gpuErrors.messages.length = 0;
});

afterEach(async () => {
  await gpuErrors.flush();
  expect(gpuErrors.messages, "uncaptured WebGPU errors").toEqual([]);
});
