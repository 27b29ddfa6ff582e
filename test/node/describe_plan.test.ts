import { expect, test } from "vitest";
import type { StepLimit } from "../../src/engine/step_limit.ts";
import { describePlan } from "../../src/node/describe_plan.ts";

const memory = {
  deviceMemory: 1e9,
  budget: 9e8,
  weightBytes: 5e8,
  prefillCapacity: 0,
  workspaceBytes: 0,
  cacheBytes: 1e8,
  cacheTokens: 1000,
  bytesPerToken: 1e5,
};

test.each([
  [
    { promptTokens: 128, asked: undefined, bound: "rows" },
    "Steps: up to 128 prompt tokens, because one submit computes no more rows, so that it ends in good time",
  ],
  [
    { promptTokens: 128, asked: 700, bound: "rows" },
    "Steps: up to 128 prompt tokens and not 700 (--chunked-prefill-size), because one submit computes no more rows, so that it ends in good time",
  ],
  [
    { promptTokens: 60, asked: 700, bound: "binding" },
    "Steps: up to 60 prompt tokens and not 700 (--chunked-prefill-size), because activations of more rows do not fit what this adapter binds at once",
  ],
  [
    { promptTokens: 48, asked: 48, bound: "asked" },
    "Steps: up to 48 prompt tokens, as --chunked-prefill-size says",
  ],
] as const satisfies readonly (readonly [StepLimit, string])[])(
  "describePlan() says why a step takes no more: %o",
  (step, line) => {
    expect(describePlan({ ...memory, step }).at(-1)).toBe(line);
  },
);
