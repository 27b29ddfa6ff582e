/** JPEG, WebP and GIF as Chromium decodes them for an engine. */
import { cpSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import type { browserDecoder } from "../../src/browser/decode_image.ts";
import { flattened } from "../../src/images/alpha.ts";
import { readCodedSize } from "../../src/images/coded_header.ts";
import { codedKindOf } from "../../src/images/coded_image.ts";
import { openImage } from "../../src/images/decode_image.ts";
import { launchChromium } from "../support/browser/chromium.ts";
import {
  ALPHA_GIF,
  ALPHA_SIZE,
  ALPHA_WEBP,
  alphaValues,
} from "../support/images/alpha_pictures.ts";
import { builtPackage } from "../support/package/built_package.ts";
import { type FileServer, filesIn, serveFiles } from "../support/server/file_server.ts";
import { hasSharedData, sharedBytes } from "../text/shared_data.ts";

const PAGE =
  '<!doctype html><link rel="icon" href="data:,"><script type="module" src="./main.js"></script>';
const PROGRAM = `
import { browserDecoder } from "./dist/browser.js";
Object.assign(globalThis, { browserDecoder });
`;

const folder = mkdtempSync(join(tmpdir(), "wisp-decode-"));
let server: FileServer | undefined;
let browser: Browser | undefined;
let page: Page;
let whySkipped = hasSharedData ? "" : "../shared/data is absent";

beforeAll(async () => {
  const launched = await launchChromium();
  if (typeof launched === "string" || !hasSharedData) {
    if (typeof launched === "string") whySkipped = launched;
    else await launched.close();
    return;
  }
  browser = launched;
  writeFileSync(join(folder, "index.html"), PAGE);
  writeFileSync(join(folder, "main.js"), PROGRAM);
  cpSync(await builtPackage(), join(folder, "dist"), { recursive: true });
  server = await serveFiles(filesIn(folder));
  page = await browser.newPage();
  await page.goto(`${server.url}index.html`);
  await page.waitForFunction(() => "browserDecoder" in globalThis);
}, 120_000);

afterAll(async () => {
  await browser?.close();
  await server?.close();
  rmSync(folder, { recursive: true, force: true });
});

/** What the page's decoder makes of a file. */
async function decoded(bytes: Uint8Array) {
  const kind = codedKindOf(bytes)!;
  const given = { kind, ...readCodedSize(bytes, kind), data: Array.from(bytes) };
  return page.evaluate(async ({ data, ...image }) => {
    type Scope = { readonly browserDecoder: typeof browserDecoder };
    const { browserDecoder: decode } = globalThis as unknown as Scope;
    const { width, height, rgba } = await decode({ ...image, bytes: Uint8Array.from(data) });
    return { width, height, rgba: Array.from(rgba) };
  }, given);
}

test.for([
  ["lossless.webp", 0],
  ["anim.gif", 0],
  ["gray.jpg", 1],
  ["exif.jpg", 3],
  ["square.jpg", 3],
  ["wide.webp", 3],
] as const)(
  "%s has the pixels of the reference, but for %i of 255",
  async ([name, most], context) => {
    if (browser === undefined) return context.skip(whySkipped);
    const { width, height, rgba } = await decoded(sharedBytes(`vision/images/${name}`));
    const file = `vision/images/decoded/${name.replace(".", "_")}.png`;
    const want = await openImage(sharedBytes(file)).decode();
    expect([width, height]).toEqual([want.width, want.height]);
    const off = Array.from(want.rgb, (value, i) => {
      const at = Math.floor(i / 3) * 4;
      return Math.abs(value - rgba[at + (i % 3)]!);
    });
    const mean = off.reduce((sum, value) => sum + value, 0) / off.length;
    expect(mean).toBeLessThanOrEqual(most / 2);
    expect(off.filter((value) => value > most).length / off.length).toBeLessThanOrEqual(0.01);
  },
);

test.each(["drop", "white"] as const)(
  "alpha that hides colours: %s is what Node sees",
  async (alpha) => {
    if (browser === undefined) return;
    const webp = await decoded(ALPHA_WEBP);
    expect(webp).toMatchObject(ALPHA_SIZE);
    expect(webp.rgba).toEqual(Array.from(alphaValues()));
    const { rgba } = await decoded(ALPHA_GIF);
    const { rgb } = await flattened({ ...ALPHA_SIZE, rgba: Uint8Array.from(rgba) }, alpha);
    const hidden = (ALPHA_SIZE.height / 2) * ALPHA_SIZE.width * 3;
    expect(new Set(rgb.slice(0, hidden))).toEqual(new Set([alpha === "drop" ? 0 : 255]));
    expect([...rgb.slice(hidden, hidden + 6)]).toEqual([0, 129, 90, 21, 129, 111]);
  },
);

test("a file that is cut off is refused", async (context) => {
  if (browser === undefined) return context.skip(whySkipped);
  const bytes = sharedBytes("vision/images/square.jpg").subarray(0, 700);
  await expect(decoded(bytes)).rejects.toThrow(
    "Cannot read the image: the browser cannot decode the JPEG",
  );
});
