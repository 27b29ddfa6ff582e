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
    { promptTokens: 128, bound: "rows" },
    -1,
    "Steps: up to 128 prompt tokens, because one submit computes no more rows, so that it ends in good time",
  ],
  [
    { promptTokens: 128, bound: "rows" },
    700,
    "Steps: up to 128 prompt tokens and not 700 (--chunked-prefill-size), because one submit computes no more rows, so that it ends in good time",
  ],
  [
    { promptTokens: 60, bound: "binding" },
    700,
    "Steps: up to 60 prompt tokens and not 700 (--chunked-prefill-size), because activations of more rows do not fit what this adapter binds at once",
  ],
  [
    { promptTokens: 48, bound: "asked" },
    48,
    "Steps: up to 48 prompt tokens, as --chunked-prefill-size says",
  ],
] as const satisfies readonly (readonly [StepLimit, number, string])[])(
  "describePlan() says why a step takes no more: %o, %i asked for",
  (step, asked, line) => {
    expect(describePlan({ ...memory, step }, asked).at(-1)).toBe(line);
  },
);
