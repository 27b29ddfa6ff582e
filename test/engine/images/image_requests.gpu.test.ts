import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { openImage } from "../../../src/images/decode_image.ts";
import { sharpDecoder } from "../../../src/node/media/sharp_decoder.ts";
import { createApp } from "../../../src/server/app.ts";
import {
  openVisionEngine,
  picture,
  see,
  VISION_MODEL,
} from "../../support/engines/vision_engine.ts";
import { type VisionCase, visionCases, visionRequest } from "../../support/images/vision_cases.ts";
import { writePng } from "../../support/images/write_png.ts";
import {
  answer,
  errorMessage,
  type GenerateAnswer,
  post,
} from "../../support/server/http_client.ts";
import { sharedBytes } from "../../text/shared_data.ts";

interface ChatAnswer {
  readonly choices: readonly { readonly message: { readonly content: string } }[];
  readonly usage: { readonly prompt_tokens: number; readonly prompt_tokens_details: object };
}

const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");
const dataUrl = (bytes: Uint8Array) => `data:image/png;base64,${base64(bytes)}`;

describe.skipIf(VISION_MODEL === undefined)("requests with images (needs ../shared/data)", () => {
  let engine: Engine;
  let cases: readonly VisionCase[];
  beforeAll(async () => {
    cases = visionCases("mini-smolvlm");
    engine = await openVisionEngine({ cacheDtype: "f32", maxPrefillTokens: 48 });
  });
  afterAll(() => engine?.close());

  const named = (name: string) => cases.find((one) => one.name === name)!;
  const requestOf = visionRequest;

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
    const rows = one.input_ids.filter((id) => id === one.image_token_id).length;
    expect(meta_info).toMatchObject({ prompt_tokens: one.input_ids.length, image_tokens: rows });
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
    expect(usage.prompt_tokens_details).toEqual({ image_tokens: rows });
    expect(choices[0]!.message.content).toBe(await engine.detokenize(tokens));
    const info = await answer<object>(await Promise.resolve(app.request("/get_model_info")));
    expect(info).toMatchObject({ has_image_understanding: true });
  });

  test("the endpoints of other clients show it and count it the same", async () => {
    const app = createApp(engine);
    const one = named("tiny");
    const data = base64(picture("tiny.png"));
    const { tokens } = await see(engine, requestOf(one));
    const text = await engine.detokenize(tokens);
    const count = one.input_ids.length;
    const words = "Describe it.";
    const asked = { temperature: 0, max_tokens: 16 };

    const source = { type: "base64", media_type: "image/png", data };
    const block = { type: "image", source };
    const messages = [{ role: "user", content: [block, { type: "text", text: words }] }];
    const counted = await post(app, "/v1/messages/count_tokens", { messages });
    expect(await answer(counted)).toEqual({ input_tokens: count });
    const message = await post(app, "/v1/messages", { messages, ...asked });
    expect(await answer(message)).toMatchObject({
      content: [{ text }],
      usage: { input_tokens: count },
    });

    const part = { type: "input_image", image_url: data };
    const input = [{ role: "user", content: [part, { type: "input_text", text: words }] }];
    const response = { input, temperature: 0, max_output_tokens: 16 };
    expect(await answer(await post(app, "/v1/responses", response))).toMatchObject({
      output: [{ content: [{ text }] }],
      usage: { input_tokens: count },
    });

    const options = { num_predict: 16, temperature: 0 };
    const said = [{ role: "user", content: words, images: [data] }];
    const chat = await post(app, "/api/chat", { messages: said, options, stream: false });
    expect(await answer(chat)).toMatchObject({
      message: { content: text },
      prompt_eval_count: count,
    });
  });

  test("a JPEG is answered alike, or an error says what it takes to decode it", async () => {
    const other = await openVisionEngine({ cacheDtype: "f32", decodeImage: sharpDecoder });
    const images = [sharedBytes("vision/images/gray.jpg")];
    const request = { ...visionRequest(named("gray")), images };
    const got = await see(other, request).catch((error: Error) => error.message);
    if (typeof got === "string") {
      const what = "it takes the package sharp, which is not installed: npm install sharp";
      expect(got).toBe(`Cannot use images[0], of the kind JPEG: ${what}`);
    } else {
      const decoded = await see(other, { ...request, images: [picture("gray.jpg")] });
      expect(got.promptTokens).toBe(decoded.promptTokens);
    }
    await other.close();
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
