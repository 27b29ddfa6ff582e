/**
 * Runs before every test file: a test fails when it leaves a WebGPU error behind.
 *
 * @module
 */

import { afterAll, afterEach, beforeEach, expect, vi } from "vitest";
import { gpuErrors } from "./devices/gpu_errors.ts";

beforeEach(() => {
  gpuErrors.messages.length = 0;
});

afterEach(async () => {
  await gpuErrors.flush();
  expect(gpuErrors.messages, "uncaptured WebGPU errors").toEqual([]);
});

// A process runs many files, and calls of mocks hold all that they were given, engines too.
afterAll(() => void vi.clearAllMocks());
