/** Prompts of embeddings that a prefill and a decode engine share are answered as one engine answers them. */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { LocalRequest } from "../../../src/engine/create_sequence.ts";
import type { GenerationChunk } from "../../../src/generation.ts";
import { openEngine } from "../../support/engines/engine.ts";
import { type Apart, apart } from "../../support/exactness/apart.ts";
import { seeded } from "../../support/seeded.ts";

const WIDTH = 256;
let pair: Apart;

beforeAll(async () => {
  const options = { pageSize: 4, transfersPages: true, maxTotalTokens: 1024 };
  pair = apart(await openEngine({ ...options, chunkedPrefillSize: 5 }), await openEngine(options));
});
afterAll(() => pair.close());

function rowsOf(seed: number, count: number): Float32Array[] {
  const random = seeded(seed);
  return Array.from({ length: count }, () =>
    Float32Array.from({ length: WIDTH }, () => random() - 0.5),
  );
}

async function answerOf(chunks: AsyncIterable<GenerationChunk>) {
  const tokens: number[] = [];
  const logprobs: unknown[] = [];
  for await (const chunk of chunks) {
    tokens.push(...chunk.tokens);
    logprobs.push(...(chunk.logprobs ?? []), ...(chunk.promptLogprobs ?? []));
  }
  return { tokens, logprobs };
}

const sampling = { temperature: 1, seed: 3, maxNewTokens: 8, ignoreEos: true };
const asking = (inputEmbeds: NonNullable<LocalRequest["inputEmbeds"]>): LocalRequest => ({
  ...{ inputEmbeds, sampling },
  logprobs: { topCount: 2, promptStart: 0 },
});

test.each([
  ["rows of f32", rowsOf(1, 19)],
  ["lists of numbers", rowsOf(2, 9).map((row) => [...row])],
  ["equal rows", Array(9).fill(rowsOf(3, 1)[0])],
  ["one row", rowsOf(4, 1)],
])("%s", async (_, rows) => {
  const { prefill, decode } = pair;
  const right = await answerOf(prefill.generate(asking(rows)));
  expect(right.tokens).toHaveLength(8);
  await prefill.flushCache();
  // The second time both engines have the prompt in their caches.
  for (let i = 0; i < 2; i++) expect(await answerOf(pair.generate(asking(rows)))).toEqual(right);
  await decode.flushCache();
  expect(await answerOf(pair.generate(asking(rows)))).toEqual(right);
  expect((await pair.left()).every((count) => count === 0)).toBe(true);
});

test("engines that are given different rows do not share them, wherever the rows differ", async () => {
  const rows = rowsOf(5, 9);
  const [first, last] = [0, WIDTH - 1].map((column) =>
    rows.map((row, r) => {
      const other = row.slice();
      if (r === 6) other[column] = -other[column]!;
      return other;
    }),
  );
  for (const other of [first!, last!, rows.slice(0, 8), [...rows.slice(1), rows[0]!]]) {
    await expect(answerOf(pair.generate(asking(rows), asking(other)))).rejects.toThrow(
      "its two sides have different prompts",
    );
  }
  const tokens = { tokens: rows.map(() => 0), sampling };
  await expect(answerOf(pair.generate(asking(rows), tokens))).rejects.toThrow("different prompts");
  expect((await pair.left()).every((count) => count === 0)).toBe(true);
});
