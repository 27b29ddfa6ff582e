/** Answers about images that an engine in a page's worker gives, beside the golden data: in Chromium. */
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { launchChromium } from "../support/browser/chromium.ts";
import { type VisionModel, visionFolder } from "../support/engines/vision_engine.ts";
import { visionCases, visionRequest } from "../support/images/vision_cases.ts";
import { builtPackage } from "../support/package/built_package.ts";
import { type FileServer, filesIn, serveFiles } from "../support/server/file_server.ts";
import { hasSharedData } from "../text/shared_data.ts";

/** What the golden data allows with keys and values in f32. */
const TOLERANCE = 3e-4;
const CASES = ["tiny", "two_images", "tall"];
const PAGE =
  '<!doctype html><link rel="icon" href="data:,"><script type="module" src="./main.js"></script>';
const PROGRAM = `
import { loadWorkerEngine } from "./dist/browser.js";
globalThis.ask = async (model, requests) => {
  const options = { cacheDtype: "f32", maxTotalTokens: 1024 };
  const engine = await loadWorkerEngine({ kind: "url", url: "./" + model }, options);
  const answers = [];
  for (const { images, ...request } of requests) {
    const answer = { tokens: [], prompt: [] };
    const given = { ...request, images: images.map((bytes) => Uint8Array.from(bytes)) };
    for await (const { tokens, promptLogprobs = [] } of engine.generate(given)) {
      answer.tokens.push(...tokens);
      answer.prompt.push(...promptLogprobs.map(({ logprob }) => logprob));
    }
    answers.push(answer);
  }
  await engine.close();
  return answers;
};
`;

interface Answer {
  readonly tokens: readonly number[];
  readonly prompt: readonly (number | null)[];
}

const MODELS: readonly VisionModel[] = ["mini-smolvlm", "mini-qwen2.5-vl"];
const folder = mkdtempSync(join(tmpdir(), "wisp-image-answers-"));
let server: FileServer | undefined;
let browser: Browser | undefined;
let whySkipped = hasSharedData ? "" : "../shared/data is absent";

beforeAll(async () => {
  if (!hasSharedData) return;
  const launched = await launchChromium();
  if (typeof launched === "string") {
    whySkipped = launched;
    return;
  }
  browser = launched;
  writeFileSync(join(folder, "index.html"), PAGE);
  writeFileSync(join(folder, "main.js"), PROGRAM);
  cpSync(await builtPackage(), join(folder, "dist"), { recursive: true });
  const files = new Map(filesIn(folder));
  for (const model of MODELS) {
    for (const [name, bytes] of filesIn(visionFolder(model))) files.set(`${model}/${name}`, bytes);
  }
  server = await serveFiles(files);
}, 400_000);

afterAll(async () => {
  await browser?.close();
  await server?.close();
  rmSync(folder, { recursive: true, force: true });
});

test.for(MODELS)("%s answers as the reference does", async (model, context) => {
  if (browser === undefined) return context.skip(whySkipped);
  const cases = visionCases(model).filter(({ name }) => CASES.includes(name));
  expect(cases).toHaveLength(CASES.length);
  const page = await browser.newPage();
  await page.goto(`${server!.url}index.html`);
  await page.waitForFunction(() => "ask" in globalThis);
  const requests = cases.map((one) => {
    const { images = [], ...request } = visionRequest(one);
    return { ...request, images: images.map((bytes) => Array.from(bytes as Uint8Array)) };
  });
  const answers = (await page.evaluate(
    ([name, asked]) =>
      (globalThis as unknown as { ask(...given: unknown[]): unknown }).ask(name, asked),
    [model, requests] as const,
  )) as readonly Answer[];
  await page.close();
  for (const [i, { name, input_ids, input_logprobs, image_token_id, greedy }] of cases.entries()) {
    const { tokens, prompt } = answers[i]!;
    expect(prompt, name).toHaveLength(input_ids.length);
    for (const [position, id] of input_ids.entries()) {
      if (position === 0 || id === image_token_id) continue;
      const off = Math.abs(prompt[position]! - input_logprobs[position]!);
      expect(off, `${name}, position ${position}`).toBeLessThan(TOLERANCE);
    }
    const tie = greedy.margin.findIndex((margin) => margin <= 0.05);
    const sure = tie < 0 ? greedy.ids.length : tie;
    expect(tokens.slice(0, sure), name).toEqual(greedy.ids.slice(0, sure));
  }
});
