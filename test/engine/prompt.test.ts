import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { ContentIds } from "../../src/cache/content_id.ts";
import { loadText } from "../../src/engine/load/text_model.ts";
import { completionLimit, type PromptOptions, PromptReader } from "../../src/engine/prompt.ts";
import { LocalTextService } from "../../src/engine/text/local_text_service.ts";
import type { TextJob, TextResult } from "../../src/engine/text/text_jobs.ts";
import type { TextService, TextWork } from "../../src/engine/text/text_service.ts";
import { ContextLengthError, InvalidRequestError } from "../../src/errors.ts";
import type { GenerationRequest } from "../../src/generation.ts";
import { openFolder } from "../../src/node/files.ts";
import { defaultModelPath } from "../../src/node/package_root.ts";
import type { Tokenizer } from "../../src/text/tokenizer.ts";

const source = await openFolder(defaultModelPath());
const text = await loadText(source, {});
await source.close?.();
const tools = { ...text, chat: text.createChat() };
const config = JSON.parse(readFileSync(join(defaultModelPath(), "config.json"), "utf8")) as {
  readonly vocab_size: number;
};

function options(allowAutoTruncate: boolean): PromptOptions {
  return {
    ...text,
    texts: new LocalTextService(tools),
    vocabularySize: config.vocab_size,
    hiddenSize: 2,
    contextLength: 8,
    contentIds: new ContentIds(),
    allowAutoTruncate,
  };
}

/** The prompt, which this thread has at once. */
function readPrompt(request: GenerationRequest, given: PromptOptions) {
  const { prompt } = new PromptReader(given).read(request);
  if (prompt instanceof Promise) throw new Error("The prompt is not there at once");
  return prompt;
}

const TEXT = "one two three four five six seven eight nine ten";
const TOO_LONG = /The input \((at least )?\d+ tokens\) is longer than the model's context length/;

describe("PromptReader", () => {
  test.each([
    [{ tokens: [1, 2, 3, 4, 5, 6, 7, 8] }],
    [{ prompt: TEXT }],
    [{ inputEmbeds: new Array(8).fill([0.5, 0.25]) }],
  ])("refuses %j for a context of 8", (request) => {
    expect(() => readPrompt(request, options(false))).toThrow(TOO_LONG);
    expect(() => readPrompt(request, options(false))).toThrow(ContextLengthError);
  });

  test("encodes no more of a long prompt than shows that it is too long", () => {
    const encoded: number[] = [];
    const { tokenizer } = text;
    const counting = (method: "encode" | "encodePrompt") => (given: string) => {
      encoded.push(given.length);
      return tokenizer[method](given);
    };
    const watched = {
      ...tokenizer,
      encode: counting("encode"),
      encodePrompt: counting("encodePrompt"),
    };
    const given = {
      ...options(false),
      contextLength: 400,
      texts: new LocalTextService({ ...tools, tokenizer: watched as unknown as Tokenizer }),
    };
    expect(() => readPrompt({ prompt: `${TEXT} `.repeat(200) }, given)).toThrow(TOO_LONG);
    expect(encoded).toEqual([3200]);
    // Of words that are one token each, all has to be seen.
    const { vocabulary } = tokenizer;
    const ids = Array.from({ length: vocabulary.size }, (_, id) => id);
    const longest = ids.find((id) => vocabulary.bytes(id).length === text.longestToken)!;
    const words = vocabulary.text(longest).repeat(Math.ceil(3300 / text.longestToken));
    expect(readPrompt({ prompt: words }, { ...given, contextLength: 410 }).tokens).toEqual(
      tokenizer.encodePrompt(words),
    );
  });

  test("keeps the beginning of a prompt that is too long, when it may", async () => {
    const tokens = [9, 8, 7, 6, 5, 4, 3, 2, 1];
    expect(readPrompt({ tokens }, options(true)).tokens).toEqual([9, 8, 7, 6, 5, 4, 3]);
    const whole = text.tokenizer.encodePrompt(TEXT);
    expect(whole.length).toBeGreaterThan(8);
    expect(readPrompt({ prompt: TEXT }, options(true)).tokens).toEqual(whole.slice(0, 7));
    const rows = Array.from({ length: 9 }, (_, i) => [i, -i]);
    const { prompt } = new PromptReader(options(true)).read({ inputEmbeds: rows });
    expect((await prompt).embeddings!.ids).toHaveLength(7);
  });

  test("encodes no more of a prompt that may be cut than what can matter", () => {
    const encoded: number[] = [];
    const tokenizer = {
      encodePrompt: (given: string) => {
        encoded.push(given.length);
        return text.tokenizer.encodePrompt(given);
      },
    };
    const watched = { ...tools, tokenizer: tokenizer as unknown as Tokenizer };
    const given = { ...options(true), texts: new LocalTextService(watched) };
    const long = `${TEXT} `.repeat(20_000);
    expect(readPrompt({ prompt: long }, given).tokens).toEqual(
      text.tokenizer.encodePrompt(long).slice(0, 7),
    );
    expect(encoded).toEqual([text.longestToken * (8 + 1024)]);
  });

  test("changes nothing about a prompt that fits", () => {
    expect(readPrompt({ tokens: [1, 2, 3, 4, 5, 6, 7] }, options(true)).tokens).toHaveLength(7);
  });

  test("checks the tokens that are cut as well", () => {
    const tokens = [1, 1, 1, 1, 1, 1, 1, 1, config.vocab_size];
    expect(() => readPrompt({ tokens }, options(true))).toThrow("not in the vocabulary");
  });
});

describe("a text that requests share", () => {
  /** Does each job when it is told to. */
  class CountedTexts implements TextService {
    readonly templateVariables = new Set<string>();
    readonly jobs: { left: boolean; finish(): void }[] = [];

    run<Job extends TextJob>(): TextWork<TextResult<Job>> {
      let finish = () => {};
      const result = new Promise<TextResult<Job>>((resolve) => {
        finish = () => resolve([1, 2] as unknown as TextResult<Job>);
      });
      const job = { left: false, finish };
      this.jobs.push(job);
      const leave = () => {
        job.left = true;
      };
      return { result, leave };
    }

    close(): void {}
  }

  test("is read once for 128 of them, and given up when all have left", async () => {
    const texts = new CountedTexts();
    const reader = new PromptReader({ ...options(false), texts });
    const read = () => reader.read({ prompt: "a", promptKey: "k" });
    const all = Array.from({ length: 128 }, read);
    reader.read({ prompt: "a", promptKey: "another" });
    reader.read({ prompt: "a" });
    expect(texts.jobs).toHaveLength(3);
    for (const one of all.slice(1)) one.leave();
    expect(texts.jobs[0]!.left).toBe(false);
    texts.jobs[0]!.finish();
    expect((await all[0]!.prompt).tokens).toEqual([1, 2]);
    expect((await read().prompt).tokens).toEqual([1, 2]);
    all[0]!.leave();
    expect(texts.jobs[0]!.left).toBe(false);
  });

  test("has rows of its own for each of them where it is embeddings", async () => {
    const reader = new PromptReader(options(false));
    const read = () => reader.read({ inputEmbeds: [[1, 2]], promptKey: "k" });
    const [first, second] = [await read().prompt, await read().prompt];
    expect(second.embeddings!.row(0)).toBe(first.embeddings!.row(0));
    first.embeddings!.release();
    expect(second.embeddings!.row(0)).toEqual(Float32Array.of(1, 2));
  });

  test("is read again for those that come when all have left", () => {
    const texts = new CountedTexts();
    const reader = new PromptReader({ ...options(false), texts });
    for (let i = 1; i <= 2; i++) {
      reader.read({ prompt: "a", promptKey: "k" }).leave();
      expect(texts.jobs).toHaveLength(i);
      expect(texts.jobs.at(-1)!.left).toBe(true);
    }
  });

  test("and that cannot be read here is tried once", async () => {
    let count = 0;
    const chat = {
      variables: new Set<string>(),
      render() {
        count += 1;
        throw new InvalidRequestError("Cannot render the chat template: it may not");
      },
    };
    const texts = new LocalTextService({ ...tools, chat });
    const reader = new PromptReader({ ...options(false), texts });
    const messages = [{ role: "user", content: "a" }];
    const all = Array.from({ length: 128 }, () => reader.read({ messages, promptKey: "k" }));
    for (const one of all) await expect(one.prompt).rejects.toThrow("it may not");
    expect(count).toBe(1);
  });
});

test("what is beyond what the context can spell is refused before it is sent anywhere", () => {
  const texts = {
    templateVariables: new Set<string>(),
    run: () => {
      throw new Error("sent");
    },
    close: () => {},
  };
  const given = { ...options(false), texts };
  const longest = 8 * text.longestToken;
  expect(() => readPrompt({ prompt: "x".repeat(longest) }, given)).toThrow(TOO_LONG);
  const messages = (count: number, content: string) => ({
    messages: Array.from({ length: count }, () => ({ role: "user", content })),
  });
  expect(() => readPrompt(messages(4, "x".repeat(longest / 4)), given)).toThrow(TOO_LONG);
  expect(() => readPrompt(messages(8, ""), given)).toThrow(TOO_LONG);
  expect(() => readPrompt(messages(7, "x"), given)).toThrow("sent");
  expect(() => readPrompt({ prompt: "x".repeat(longest - 2 * text.longestToken) }, given)).toThrow(
    "sent",
  );
});

describe("completionLimit()", () => {
  const limit = (wanted: number, allowAutoTruncate: boolean) =>
    completionLimit(5, wanted, { contextLength: 8, fallback: 128, allowAutoTruncate });

  test("refuses more than is left, or cuts it when it may", async () => {
    expect(limit(3, false)).toBe(3);
    expect(() => limit(4, false)).toThrow("You requested a total of 9 tokens");
    expect(() => limit(4, false)).toThrow(ContextLengthError);
    expect(limit(4, true)).toBe(3);
  });
});
