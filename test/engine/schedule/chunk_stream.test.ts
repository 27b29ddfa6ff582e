import { expect, test } from "vitest";
import { ChunkStream, requireInterval } from "../../../src/engine/schedule/chunk_stream.ts";
import type { FinishReason, GenerationChunk } from "../../../src/generation.ts";
import type { TokenLogprobs } from "../../../src/logprobs.ts";

interface Told {
  readonly finish?: FinishReason;
  readonly logprobs?: boolean;
}

/** Chunks of one request, one after another. */
function chunks() {
  let completionTokens = 0;
  return (tokens: readonly number[], { finish, logprobs = false }: Told = {}): GenerationChunk => {
    completionTokens += tokens.length;
    return {
      requestId: "r",
      text: tokens.join(""),
      tokens,
      ...(logprobs && { logprobs: tokens.map(logprobOf) }),
      promptTokens: 5,
      completionTokens,
      cachedTokens: 2,
      finish: finish ?? null,
    };
  };
}

function logprobOf(token: number): TokenLogprobs {
  return { token, logprob: -token, top: null, given: null };
}

function stream(interval?: number) {
  const stopped: string[] = [];
  const made = new ChunkStream({ start: () => {}, stop: () => stopped.push("stopped"), interval });
  return { made, stopped };
}

async function texts(made: ChunkStream): Promise<string[]> {
  const read: string[] = [];
  for await (const { text } of made) read.push(text);
  return read;
}

const END: FinishReason = { type: "stop", matched: 0 };

test("ChunkStream hands on every chunk unless told otherwise", async () => {
  const { made } = stream();
  const chunk = chunks();
  for (const token of [1, 2, 3]) made.push(chunk([token]));
  made.push(chunk([], { finish: END }));
  expect(await texts(made)).toEqual(["1", "2", "3", ""]);
});

test("ChunkStream sends the first token at once, then so many together, then what is left", async () => {
  const { made } = stream(3);
  const chunk = chunks();
  made.push(chunk([]));
  for (const token of [1, 2, 3, 4, 5, 6]) made.push(chunk([token]));
  made.push(chunk([7], { finish: END }));
  expect(await texts(made)).toEqual(["", "1", "234", "567"]);
});

test("ChunkStream joins tokens, log-probabilities and counts", async () => {
  const { made } = stream(2);
  const chunk = chunks();
  made.push(chunk([1], { logprobs: true }));
  made.push(chunk([2], { logprobs: true }));
  made.push(chunk([3], { logprobs: true, finish: END }));
  await made.next();
  expect((await made.next()).value).toEqual({
    requestId: "r",
    text: "23",
    tokens: [2, 3],
    logprobs: [logprobOf(2), logprobOf(3)],
    promptTokens: 5,
    completionTokens: 3,
    cachedTokens: 2,
    finish: END,
  });
});

test("ChunkStream wakes the caller that waits when a chunk is long enough, not before", async () => {
  const { made } = stream(2);
  const chunk = chunks();
  made.push(chunk([1]));
  await made.next();
  let text: string | undefined;
  const next = made.next().then(({ value }) => {
    text = value?.text;
  });
  made.push(chunk([2]));
  await Promise.resolve();
  expect(text).toBeUndefined();
  made.push(chunk([3]));
  await next;
  expect(text).toBe("23");
});

test("ChunkStream tells what it has before an error", async () => {
  const { made, stopped } = stream(4);
  const chunk = chunks();
  for (const token of [1, 2, 3]) made.push(chunk([token]));
  made.fail(new Error("broken"));
  expect((await made.next()).value?.text).toBe("1");
  expect((await made.next()).value?.text).toBe("23");
  await expect(made.next()).rejects.toThrow("broken");
  expect(stopped).toEqual(["stopped"]);
});

test.each([0, 1.5, -1, Number.NaN])("an interval of %d is refused and named", (interval) => {
  expect(() => requireInterval(interval)).toThrow("streamInterval must be a whole number");
});
