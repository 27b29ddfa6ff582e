import { serialize } from "node:v8";
import { expect, test } from "vitest";
import { packChunk, unpackChunk } from "../../../src/engine/remote/packed_chunk.ts";
import { HeldLogprobs } from "../../../src/engine/sample/held_logprobs.ts";
import type { GenerationChunk } from "../../../src/generation.ts";

function held(count: number, text?: (token: number) => string): HeldLogprobs {
  const tokens = Uint32Array.from({ length: count }, (_, i) => 7 * i + 3);
  const values = Float32Array.from({ length: count }, (_, i) => -i / 3);
  return new HeldLogprobs(tokens, values, { givenCount: Math.min(2, count - 1), text });
}

function chunkOf(logprobs: readonly HeldLogprobs[]): GenerationChunk {
  const first = { token: 5, logprob: null, top: null, given: null };
  const embedding = { ...first, token: null };
  const counts = { promptTokens: 2, completionTokens: 1, cachedTokens: 0 };
  const plain = { requestId: "r", text: "a", tokens: [3], ...counts, finish: null };
  return { ...plain, logprobs, promptLogprobs: [first, embedding, ...logprobs] };
}

test("log-probabilities are the same behind a port", () => {
  const text = (token: number) => `<${token}>`;
  const chunk = chunkOf([held(1), held(9), held(1, text), held(9, text)]);
  const arrived = unpackChunk(structuredClone(packChunk(chunk)));
  expect(JSON.stringify(arrived)).toBe(JSON.stringify(chunk));
  expect(arrived.logprobs![3]!.top![0]).toEqual({
    token: 10,
    logprob: Math.fround(-1 / 3),
    text: "<10>",
  });
  // Once more, as from a worker's worker.
  expect(JSON.stringify(unpackChunk(packChunk(arrived)))).toBe(JSON.stringify(chunk));
  const without = { ...chunkOf([]), logprobs: undefined, promptLogprobs: undefined };
  expect(unpackChunk(packChunk(without as never))).not.toHaveProperty("logprobs");
});

test("a result takes some 8 bytes on its way", () => {
  const { length } = serialize(packChunk(chunkOf([held(1025)])));
  expect(length).toBeLessThan(2 * 1025 * 9);
});
