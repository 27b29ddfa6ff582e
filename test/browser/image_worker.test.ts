/** Images of a page, read in a worker of its own, and by an engine in a worker. */
import type { Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import type * as browserApi from "../../src/browser/index.ts";
import { localImageService } from "../../src/engine/images/local_image_service.ts";
import type { PictureRecipe } from "../../src/images/picture_recipe.ts";
import type * as api from "../../src/index.ts";
import { type ScriptedPage, servePage } from "../support/browser/scripted_page.ts";
import { openVisionEngine, see, VISION_MODEL } from "../support/engines/vision_engine.ts";
import {
  ALPHA_SIZE,
  ALPHA_WEBP,
  alphaPixel,
  alphaValues,
} from "../support/images/alpha_pictures.ts";
import { writePng } from "../support/images/write_png.ts";

const PROGRAM = `
import * as api from "wisp-llm";
import * as browserApi from "wisp-llm/browser";
Object.assign(globalThis, { wisp: { ...api, ...browserApi } });
`;
interface PageScope {
  readonly wisp: typeof api & typeof browserApi;
}

const png = writePng({
  ...{ ...ALPHA_SIZE, colorType: 6, bitDepth: 8 },
  sample: (x, y, c) => alphaPixel(x, y)[c]!,
});
const recipe: PictureRecipe = {
  view: { kind: "whole", size: { width: 16, height: 8 } },
  scale: { rescale: 1 / 255, mean: [0.5, 0.4, 0.3], deviation: [0.2, 0.3, 0.5] },
  layout: { patchSide: 4 },
};

let served: ScriptedPage | undefined;
let page: Page;
let whySkipped = "../shared/data is absent";

beforeAll(async () => {
  if (VISION_MODEL === undefined) return;
  const opened = await servePage({ "main.js": PROGRAM }, undefined, VISION_MODEL);
  if (typeof opened === "string") {
    whySkipped = opened;
    return;
  }
  served = opened;
  page = await served.browser.newPage();
  await page.goto(served.address);
  await page.waitForFunction(() => "wisp" in globalThis);
}, 120_000);

afterAll(() => served?.close());

test.for(["drop", "white"] as const)(
  "a worker of the page sees what Node does: alpha %s",
  async (alpha, context) => {
    if (served === undefined) return context.skip(whySkipped);
    const here = await localImageService({ alpha }).open(png);
    const want: number[][] = [];
    for await (const { patches } of here.pictures(recipe)) want.push(Array.from(patches));
    const given = {
      alpha,
      recipe,
      png: [...png],
      webp: [...ALPHA_WEBP],
      values: [...alphaValues()],
    };
    const found = await page.evaluate(async ({ alpha, recipe, png, webp, values }) => {
      const { wisp } = globalThis as unknown as PageScope;
      const service = wisp.workerImageService({ alpha });
      const pixels = { width: 12, height: 6, rgba: Uint8ClampedArray.from(values) };
      const drawn = values.map((value, i) => (i % 4 === 3 ? 255 : value));
      const bitmap = await createImageBitmap(new ImageData(Uint8ClampedArray.from(drawn), 12, 6));
      const results: { hash: string; pictures: number[][] }[] = [];
      for (const image of [Uint8Array.from(png), Uint8Array.from(webp), pixels, bitmap]) {
        const reading = await service.open(image);
        const pictures: number[][] = [];
        for await (const one of reading.pictures(recipe)) pictures.push(Array.from(one.patches));
        results.push({ hash: reading.hash, pictures });
        reading.close();
      }
      service.close();
      return results;
    }, given);
    for (const { pictures } of found.slice(0, 3)) expect(pictures).toEqual(want);
    expect(found[0]!.hash).toBe(here.hash);
    // Drawn without alpha, its colours are those that alpha hides.
    const opaque = await localImageService({ alpha: "drop" }).open(png);
    const colours: number[][] = [];
    for await (const { patches } of opaque.pictures(recipe)) colours.push(Array.from(patches));
    expect(found[3]!.pictures).toEqual(colours);
    expect(found[3]!.hash).toMatch(/^12 x 6 pixels [0-9a-f]{64}$/);
  },
);

test("an engine in a worker is shown blobs, pixels and bitmaps", async (context) => {
  if (served === undefined) return context.skip(whySkipped);
  const prompt = "Look: <image> What?";
  const sampling = { temperature: 0, maxNewTokens: 4, ignoreEos: true };
  const asked = {
    prompt,
    sampling,
    url: served.modelUrl,
    png: [...png],
    values: [...alphaValues()],
  };
  const found = await page.evaluate(async ({ prompt, sampling, url, png, values }) => {
    const { wisp } = globalThis as unknown as PageScope;
    const options = { contextLength: 512, maxTotalTokens: 1024 };
    const engine = await wisp.loadWorkerEngine({ kind: "url", url }, options);
    const data = new ImageData(Uint8ClampedArray.from(values), 12, 6);
    const opaque = new ImageData(
      Uint8ClampedArray.from(values.map((value, i) => (i % 4 === 3 ? 255 : value))),
      ...([12, 6] as const),
    );
    const bytes = Uint8Array.from(png);
    const bitmap = await createImageBitmap(opaque);
    const answers: number[][] = [];
    for (const image of [bytes, new Blob([bytes]), data, opaque, bitmap]) {
      const tokens: number[] = [];
      for await (const chunk of engine.generate({ prompt, sampling, images: [image] })) {
        tokens.push(...chunk.tokens);
      }
      answers.push(tokens);
    }
    const left = { bytes: bytes.length, bitmap: bitmap.width };
    const late = engine.generate({ prompt, images: [new Blob([bytes.subarray(0, 60)])] });
    const problem = await late[Symbol.asyncIterator]()
      .next()
      .catch((error: Error) => error.message);
    await engine.close();
    return { answers, left, problem };
  }, asked);
  const engine = await openVisionEngine({ contextLength: 512, maxTotalTokens: 1024 });
  const { tokens } = await see(engine, { prompt, sampling, images: [png] });
  await engine.close();
  expect(found.answers).toEqual(Array.from({ length: 5 }, () => tokens));
  expect(found.left).toEqual({ bytes: png.length, bitmap: 12 });
  expect(found.problem).toBe("Cannot read images[0]: it has no rows");
});
