import { expect, test } from "vitest";
import type { StepLimit } from "../../../src/engine/load/start_sizes.ts";
import {
  describeRanks,
  describeRequests,
  describeSizes,
  describeSpeculation,
} from "../../../src/node/serve/describe_sizes.ts";
import { resolveSpeculation } from "../../../src/speculation/speculation_options.ts";

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

const requests = { running: 8, bound: "rows" } as const;

test("describeRanks() says what each has whole, once for each reason", () => {
  const heads = { name: "self_attn", why: "its 4 heads cannot be shared out evenly" };
  expect(describeRanks(1, [])).toEqual([]);
  const mlps = [0, 1, 2].map((i) => ({ name: `model.layers.${i}.mlp`, why: "it is small" }));
  expect(describeRanks(3, [heads, ...mlps])).toEqual([
    "Ranks: 3 share the model on this adapter",
    "Ranks: each has whole self_attn, as its 4 heads cannot be shared out evenly",
    "Ranks: each has whole model.layers.*.mlp, as it is small",
  ]);
  const many = Array.from({ length: 11 }, (_, i) => ({ name: `part${i}`, why: `why ${i}` }));
  expect(describeRanks(2, many).at(-1)).toBe(
    "Ranks: each has whole other parts, for 3 more reasons",
  );
  expect(describeRanks(2, many)).toHaveLength(10);
});

test("describeRequests() says why fewer run at once than are asked for, and nothing else", () => {
  expect(describeRequests(requests, 8)).toEqual([]);
  expect(describeRequests(requests, undefined)).toEqual([]);
  expect(describeRequests({ running: 128, bound: "rows" }, 2048)).toEqual([
    "Requests: 128 at once and not 2048 (--max-running-requests), because one submit computes no more rows, so that it ends in good time",
  ]);
  expect(describeRequests({ running: 17, bound: "binding" }, 100)[0]).toContain(
    "because activations of more rows do not fit what this adapter binds at once",
  );
});

test("describeRequests() says what a group has of requests that several share out", () => {
  expect(describeRequests({ running: 3, bound: "rows" }, 7, 2)).toEqual([
    "Requests: 3 at once, of 7 that 2 groups share out (--max-running-requests)",
  ]);
  expect(describeRequests({ running: 3, bound: "binding" }, 8, 2)[0]).toMatch(
    /^Requests: 3 at once and not 4 \(--max-running-requests\), because activations/,
  );
  expect(describeRequests(requests, undefined, 2)).toEqual([]);
});

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
  "describeSizes() says why a step takes no more: %o, %i asked for",
  (step, asked, line) => {
    const sizes = { ...memory, step, requests, speculation: undefined };
    expect(describeSizes({ ...sizes, cacheCopies: 1 }, asked).at(-1)).toBe(line);
    expect(describeSizes({ ...sizes, cacheCopies: 2 }, asked).at(-2)).toBe(
      "KV cache: 2 ranks hold the same entries, each all of them",
    );
  },
);

test("describeSpeculation() says how many drafts there may be, and what the plan says of its options", () => {
  const facts = {
    architecture: "DeepseekV3ForCausalLM",
    hasMtpLayer: true,
    prefillAttentionBackend: "auto",
    decodeAttentionBackend: "auto",
  };
  const draft = { weightBytes: 3 * 2 ** 20, cacheBytes: 2 ** 19 };
  const lines = (options: Parameters<typeof resolveSpeculation>[0]) =>
    describeSpeculation({ speculation: resolveSpeculation(options, facts), draft });
  expect(lines({})).toEqual([]);
  expect(lines({ algorithm: "NGRAM" })).toEqual([
    "Speculation: NGRAM, up to 11 drafts of a request in a step",
  ]);
  expect(lines({ algorithm: "NEXTN", numSteps: 1, eagleTopk: 1, numDraftTokens: 5 })).toEqual([
    "Speculation: EAGLE, up to 1 draft of a request in a step",
    expect.stringContaining("draft tokens are adjusted"),
  ]);
  expect(lines({ algorithm: "STANDALONE", draftModelPath: "org/small" })).toEqual([
    "Speculation: STANDALONE, up to 3 drafts of a request in a step",
    "Draft model: org/small, 3.0 MiB of the weights and 0.5 MiB of the KV cache",
  ]);
});
