import { afterAll, beforeAll, describe, expect, onTestFinished, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { messagePort } from "../../../src/engine/remote/port.ts";
import { RemoteEngine } from "../../../src/engine/remote/remote_engine.ts";
import { serveEngine } from "../../../src/engine/remote/serve_engine.ts";
import type { GenerationEngine } from "../../../src/generation.ts";
import type { ImageInput } from "../../../src/image_input.ts";
import { openVisionEngine, see, VISION_MODEL } from "../../support/engines/vision_engine.ts";
import {
  ALPHA_SIZE,
  alphaPixel,
  alphaValues,
  seenOf,
} from "../../support/images/alpha_pictures.ts";
import { visionRequest, whiteCase } from "../../support/images/vision_cases.ts";
import { writePng } from "../../support/images/write_png.ts";

const prompt = "Look: <image> What?";
const sampling = { temperature: 0, maxNewTokens: 4, ignoreEos: true };

const withAlpha = writePng({
  ...{ ...ALPHA_SIZE, colorType: 6, bitDepth: 8 },
  sample: (x, y, c) => alphaPixel(x, y)[c]!,
});

/** A picture without alpha, of what is seen. */
function opaque(alpha: "drop" | "white"): Uint8Array {
  const rgb = seenOf(alphaValues(), alpha);
  const sample = (x: number, y: number, c: number) => rgb[(y * ALPHA_SIZE.width + x) * 3 + c]!;
  return writePng({ ...ALPHA_SIZE, colorType: 2, bitDepth: 8, sample });
}

describe.skipIf(VISION_MODEL === undefined)("forms of images (needs ../shared/data)", () => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await openVisionEngine({ imageCacheMemory: 0 });
  });
  afterAll(() => engine?.close());

  const ask = (image: ImageInput, from: GenerationEngine = engine) =>
    see(from, { prompt, sampling, images: [image], logprobs: {} });

  test("bytes, blobs and pixels are one picture, and their prefixes too", async () => {
    const first = await ask(withAlpha);
    const { width, height } = ALPHA_SIZE;
    const pixels = { width, height, data: Uint8ClampedArray.from(alphaValues()) };
    for (const image of [new Blob([withAlpha]), pixels]) {
      const again = await ask(image);
      expect(again.logprobs).toEqual(first.logprobs);
      expect(again.cachedTokens).toBe(first.promptTokens - 1);
      const tokens = await engine.tokenize({ prompt, images: [image] });
      expect(tokens).toHaveLength(first.promptTokens);
    }
  });

  test("they go to an engine behind a port", async () => {
    const { port1, port2 } = new MessageChannel();
    const stop = serveEngine(engine, messagePort(port1));
    onTestFinished(stop);
    const remote = await RemoteEngine.connect(messagePort(port2));
    const first = await ask(withAlpha);
    const pixels = { ...ALPHA_SIZE, data: Uint8ClampedArray.from(alphaValues()) };
    for (const image of [withAlpha, new Blob([withAlpha]), pixels]) {
      expect((await ask(image, remote)).logprobs).toEqual(first.logprobs);
    }
    expect(withAlpha.length).toBeGreaterThan(0);
    await expect(ask([] as unknown as ImageInput, remote)).rejects.toThrow(
      "Cannot read images[0]: it is no Uint8Array, Blob, ImageData or ImageBitmap",
    );
    await remote.close();
  });

  test("alpha is dropped, or the picture lies on white", async () => {
    const white = await openVisionEngine({ imageAlpha: "white" });
    onTestFinished(() => white.close());
    const [dropped, laid] = [await ask(withAlpha), await ask(withAlpha, white)];
    expect(laid.logprobs).not.toEqual(dropped.logprobs);
    expect((await ask(opaque("drop"))).logprobs).toEqual(dropped.logprobs);
    expect((await ask(opaque("white"), white)).logprobs).toEqual(laid.logprobs);
  });

  test("a picture on white has the golden data's log-probabilities and answer", async () => {
    const white = await openVisionEngine({ imageAlpha: "white", cacheDtype: "f32" });
    onTestFinished(() => white.close());
    const one = whiteCase("mini-smolvlm");
    const { prompt: found, tokens } = await see(white, visionRequest(one));
    const off = one.input_logprobs.map((want, i) =>
      Math.abs((found[i]!.logprob ?? 0) - (want ?? 0)),
    );
    const compared = found.filter(({ logprob }) => logprob !== null);
    expect(compared.length).toBeGreaterThan(10);
    const text = off.filter((_, i) => found[i]!.logprob !== null);
    expect(Math.max(...text)).toBeLessThan(3e-4);
    expect(tokens).toEqual(one.greedy.ids);
  });

  test("the engine refuses wrong options by name", async () => {
    const decodeImage = () => Promise.reject(new Error("unused"));
    const imageService = () => {
      throw new Error("unused");
    };
    await expect(openVisionEngine({ decodeImage, imageService })).rejects.toThrow(
      "Cannot use decodeImage: imageService decodes images itself",
    );
    await expect(openVisionEngine({ imageAlpha: "black" as "white" })).rejects.toThrow(
      "Cannot use imageAlpha black: it must be one of drop, white",
    );
    await expect(openVisionEngine({ imageCacheMemory: -1 })).rejects.toThrow(
      "Cannot use imageCacheMemory -1: it must be a whole number of at least 0",
    );
  });
});
