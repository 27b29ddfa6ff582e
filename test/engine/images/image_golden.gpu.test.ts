import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import type { ChatMessage, GenerationRequest } from "../../../src/generation.ts";
import { openImage } from "../../../src/images/decode_image.ts";
import { createApp } from "../../../src/server/app.ts";
import {
  openVisionEngine,
  picture,
  see,
  VISION_MODEL,
} from "../../support/engines/vision_engine.ts";
import { writePng } from "../../support/images/write_png.ts";
import {
  answer,
  errorMessage,
  type GenerateAnswer,
  post,
} from "../../support/server/http_client.ts";
import { sharedJson } from "../../text/shared_data.ts";

interface Case {
  readonly name: string;
  readonly messages: readonly {
    readonly role: string;
    readonly content: string | readonly ({ type: "text"; text: string } | { type: "image_url" })[];
  }[];
  readonly images: readonly string[];
  readonly prompt: string;
  readonly input_ids: readonly number[];
  readonly image_token_id: number;
  readonly input_logprobs: readonly (number | null)[];
  readonly greedy: { readonly ids: readonly number[]; readonly margin: readonly number[] };
}

interface ChatAnswer {
  readonly choices: readonly { readonly message: { readonly content: string } }[];
  readonly usage: { readonly prompt_tokens: number };
}

/** What the golden data allows with keys and values in f32. */
const TOLERANCE = 3e-4;
/** Two tokens that are as near are a tie. */
const CLOSE = 0.05;
const SAMPLING = { temperature: 0, maxNewTokens: 16, ignoreEos: true } as const;

const OTHER_ENGINES: readonly Partial<LoadOptions>[] = [
  { prefixCache: false },
  { prefixCache: false, speculation: { algorithm: "NGRAM" } },
  // Room for the prompts of the last two, and not for their answers.
  { maxTotalTokens: 172, pageSize: 4, scheduleConservativeness: 0 },
];

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");
const dataUrl = (bytes: Uint8Array) => `data:image/png;base64,${base64(bytes)}`;

describe.skipIf(VISION_MODEL === undefined)("answers about images (needs ../shared/data)", () => {
  let engine: Engine;
  let cases: readonly Case[];
  beforeAll(async () => {
    const file = "vision/golden/mini-smolvlm.w.f32kv.json";
    ({ cases } = sharedJson<{ cases: readonly Case[] }>(file));
    // Chunks end inside of images.
    engine = await openVisionEngine({ cacheDtype: "f32", maxPrefillTokens: 48 });
  });
  afterAll(() => engine?.close());

  const named = (name: string) => cases.find((one) => one.name === name)!;

  const requestOf = ({ name, messages, images }: Case): GenerationRequest => ({
    messages: messages.map(({ role, content }) => ({
      role,
      content: partsOf(content, name === "nosplit"),
    })),
    images: images.map(picture),
    sampling: SAMPLING,
    logprobs: { promptStart: 0 },
  });

  test("each prompt's tokens, log-probabilities and greedy answer, then again from the cache", async () => {
    // Alpha is dropped here.
    const seen = cases.filter(({ name }) => name !== "rgba_white");
    expect(seen.length).toBeGreaterThan(20);
    for (const one of seen) {
      const request = requestOf(one);
      const first = await see(engine, request);
      expect(first.promptTokens, one.name).toBe(one.input_ids.length);
      one.input_ids.forEach((id, i) => {
        const at = `${one.name}, position ${i}`;
        const got = first.prompt[i]!;
        if (id === one.image_token_id) {
          expect(got, at).toEqual({ token: null, logprob: null, top: null, given: null });
          return;
        }
        expect(got.token, at).toBe(id);
        if (i === 0) expect(got.logprob).toBeNull();
        else expect(Math.abs(got.logprob! - one.input_logprobs[i]!), at).toBeLessThan(TOLERANCE);
      });
      const tie = one.greedy.margin.findIndex((margin) => margin <= CLOSE);
      const sure = tie < 0 ? one.greedy.ids.length : tie;
      expect(first.tokens.slice(0, sure), one.name).toEqual(one.greedy.ids.slice(0, sure));

      const again = await see(engine, { ...request, logprobs: {} });
      expect(again.cachedTokens, one.name).toBe(one.input_ids.length - 1);
      expect([again.tokens, again.logprobs]).toEqual([first.tokens, first.logprobs]);
    }
  });

  test("an image is found again by what it shows, and never taken for another", async () => {
    await engine.flushCache();
    const ask = (name: string) =>
      see(engine, { ...requestOf(named("tiny")), images: [picture(name)], logprobs: {} });
    const first = await ask("tiny.png");
    const other = await ask("gray.png");
    // Both are of ten tiles: their prompts are the same tokens.
    expect(other.promptTokens).toBe(first.promptTokens);
    expect(other.cachedTokens).toBe(8);
    expect(other.logprobs).not.toEqual(first.logprobs);
    // Another file of the same pixels.
    const { width, height, rgb } = await openImage(picture("tiny.png")).decode();
    const sample = (x: number, y: number, c: number) => rgb[(y * width + x) * 3 + c]!;
    const decoded = writePng({ colorType: 2, bitDepth: 8, width, height, sample });
    expect(decoded).not.toEqual(picture("tiny.png"));
    const again = await see(engine, {
      ...requestOf(named("tiny")),
      images: [decoded],
      logprobs: {},
    });
    expect(again.cachedTokens).toBe(first.promptTokens - 1);
    expect(again.logprobs).toEqual(first.logprobs);
  });

  test("bits depend neither on chunks nor on neighbours nor on drafts nor on retractions", async () => {
    const asked = ["two_images", "same_image_twice", "photo", "text_first"].map((name) => ({
      ...requestOf(named(name)),
      logprobs: {},
    }));
    await engine.flushCache();
    const want = await inTurn(asked, (request) => see(engine, request));
    for (const options of OTHER_ENGINES) {
      const other = await openVisionEngine({ cacheDtype: "f32", ...options });
      const got = await Promise.all(asked.map((request) => see(other, request)));
      const bits = (answers: typeof got) =>
        answers.map(({ tokens, logprobs }) => [tokens, logprobs]);
      expect(bits(got), JSON.stringify(options)).toEqual(bits(want));
      const isShort = "maxTotalTokens" in options;
      expect(other.status().retractions > 0).toBe(isShort);
      await other.close();
    }
  });

  test("over HTTP: /generate, a chat of two turns, and what they count", async () => {
    const app = createApp(engine);
    const one = named("two_turns_images");
    const { tokens } = await see(engine, requestOf(one));
    const generated = await post(app, "/generate", {
      text: one.prompt,
      image_data: one.images.map((name) => base64(picture(name))),
      sampling_params: { temperature: 0, max_new_tokens: 16, ignore_eos: true },
    });
    // The template has a beginning of its own, and so has the tokenizer none.
    const { output_ids, meta_info } = await answer<GenerateAnswer>(generated);
    expect(output_ids).toEqual(tokens);
    expect(meta_info.prompt_tokens).toBe(one.input_ids.length);
    const urls = one.images.map((name) => dataUrl(picture(name)));
    let next = 0;
    const chat = await post(app, "/v1/chat/completions", {
      messages: one.messages.map(({ role, content }) => ({
        role,
        content: (content as { type: string }[]).map((part) =>
          part.type === "text" ? part : { type: "image_url", image_url: { url: urls[next++] } },
        ),
      })),
      temperature: 0,
      max_tokens: 16,
      ignore_eos: true,
    });
    const { usage, choices } = await answer<ChatAnswer>(chat);
    expect(usage.prompt_tokens).toBe(one.input_ids.length);
    expect(choices[0]!.message.content).toBe(await engine.detokenize(tokens));
    const info = await answer<object>(await Promise.resolve(app.request("/get_model_info")));
    expect(info).toMatchObject({ has_image_understanding: true });
  });

  const jpeg = Uint8Array.from([0xff, 0xd8, 0xff, 0xe0, 0, 0, 0, 0]);
  const tiny = () => base64(picture("tiny.png"));
  test.each<[string, () => object, RegExp]>([
    [
      "of another kind",
      () => ({ text: "<image><image>", image_data: [tiny(), base64(jpeg)] }),
      /^Cannot read image_data\[1\]: it is a JPEG, and only PNG is decoded$/,
    ],
    [
      "cut off",
      () => ({
        text: "<image><image>",
        image_data: [tiny(), base64(picture("photo.png").subarray(0, 5000))],
      }),
      /^Cannot read image_data\[1\]: the file ends within a chunk$/,
    ],
    [
      "more than places",
      () => ({ text: "a <image>", image_data: [tiny(), tiny()] }),
      /^Cannot place images: the prompt has 1 places for them \(<image>\) and the request 2 images$/,
    ],
    [
      "none for a place",
      () => ({ text: "a <image>" }),
      /has 1 places .* and the request 0 images$/,
    ],
    [
      "beside tokens",
      () => ({ input_ids: [5, 6], image_data: tiny() }),
      /^Cannot use image_data: they need a prompt or messages that have places for them$/,
    ],
    [
      "more than the context holds",
      () => ({
        text: "<image>".repeat(60),
        image_data: Array.from({ length: 60 }, () => tiny()),
      }),
      /^The input \(at least 2400 tokens\) is longer than the model's context length \(2048/,
    ],
  ])("images that are refused: %s", async (_, body, message) => {
    const response = await post(createApp(engine), "/generate", body());
    expect([response.status, await errorMessage(response)]).toEqual([
      400,
      expect.stringMatching(message),
    ]);
  });

  test("a text of a chat does not spell the place of an image", async () => {
    const response = await post(createApp(engine), "/v1/chat/completions", {
      messages: [{ role: "user", content: "What is <image>?" }],
    });
    expect([response.status, await errorMessage(response)]).toEqual([
      400,
      "Cannot read messages[0]: its text has <image>, which is the place of an image",
    ]);
  });

  test("a client that leaves while its images are read leaves nothing behind", async () => {
    const leaving = new AbortController();
    const request = { ...requestOf(named("three_images")), signal: leaving.signal };
    const first = see(engine, request);
    await Promise.resolve();
    leaving.abort();
    await expect(first).rejects.toThrow(/abort/i);
    const { runningRequests, queuedRequests } = engine.status();
    expect([runningRequests, queuedRequests]).toEqual([0, 0]);
    expect((await see(engine, requestOf(named("photo")))).tokens.length).toBe(16);
  });
});

function partsOf(
  content: Case["messages"][number]["content"],
  isWhole: boolean,
): ChatMessage["content"] {
  if (typeof content === "string") return content;
  return content.map((part) => {
    if (part.type === "text") return part;
    return isWhole ? { type: "image", detail: "low" } : { type: "image" };
  });
}

async function inTurn<T, R>(items: readonly T[], work: (item: T) => Promise<R>): Promise<R[]> {
  const results: R[] = [];
  for (const item of items) results.push(await work(item));
  return results;
}
