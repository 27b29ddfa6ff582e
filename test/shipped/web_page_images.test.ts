/** Images in the server's page, picked, pasted and dropped in Chromium, and what the model is given. */
import { join } from "node:path";
import type { Browser, Page } from "playwright-core";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type RunningServer, serve } from "../../src/node/serve/http.ts";
import { readWebPage } from "../../src/node/serve/web_page_files.ts";
import { createApp } from "../../src/server/app.ts";
import { launchChromium } from "../support/browser/chromium.ts";
import { ScriptedEngine } from "../support/engines/scripted_engine.ts";
import { writePng } from "../support/images/write_png.ts";
import { until } from "../support/until.ts";
import { shipped } from "./support/wisp.ts";

let browser: Browser | string;
let server: RunningServer;
const engine = new ScriptedEngine({
  model: { readsImages: true },
  script: () => ({ pieces: ["A cat"] }),
});

beforeAll(async () => {
  browser = await launchChromium();
  const webPage = await readWebPage(
    join(shipped(), "node_modules", "wisp-llm", "dist", "web_page"),
  );
  server = await serve(createApp(engine, { webPage }), { host: "127.0.0.1", port: 0 });
});

afterAll(async () => {
  if (typeof browser !== "string") await browser.close();
  await server.close(0);
});

/** A file whose pixels are all this grey. */
const png = (grey: number) =>
  Buffer.from(writePng({ colorType: 0, bitDepth: 8, width: 4, height: 4, sample: () => grey }));

/** By a camera that sees a canvas; it is off when the picture is there. */
async function takePicture(page: Page): Promise<void> {
  await page.evaluate(() => {
    const canvas = document.createElement("canvas");
    const paint = () => canvas.getContext("2d")!.fillRect(0, 0, 20 * Math.random(), 20);
    setInterval(paint, 50);
    const stream = canvas.captureStream();
    Object.assign(globalThis, { stream });
    navigator.mediaDevices.getUserMedia = async () => stream;
  });
  await page.getByRole("button", { name: "Camera" }).click();
  const live = page.locator("#camera video");
  await until(async () =>
    expect(await live.evaluate(({ readyState }: HTMLVideoElement) => readyState)).toBe(4),
  );
  await page.getByRole("button", { name: "Take picture" }).click();
  await live.waitFor({ state: "detached" });
  const states = await page.evaluate(() => {
    const { stream } = globalThis as unknown as { readonly stream: MediaStream };
    return stream.getTracks().map(({ readyState }) => readyState);
  });
  expect(states).toEqual(["ended"]);
}

test("images are picked, pasted, dropped, taken, taken back, shown and kept", async (context) => {
  if (typeof browser === "string") return context.skip(browser);
  const page = await (await browser.newContext()).newPage();
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  await page.goto(`${server.url}/`);
  await page.getByRole("button", { name: "Image", exact: true }).waitFor();
  await page.setInputFiles("#image-files", [
    { name: "one.png", mimeType: "image/png", buffer: png(10) },
    { name: "two.png", mimeType: "image/png", buffer: png(90) },
    { name: "broken.png", mimeType: "image/png", buffer: Buffer.from("no picture") },
  ]);
  const pending = page.locator("#images img");
  await until(async () => expect(await pending.count()).toBe(2));
  await page.getByRole("button", { name: "Remove image 1" }).click();
  for (const [kind, target] of [
    ["paste", "#prompt"],
    ["drop", "#composer"],
  ] as const) {
    await page.evaluate(
      ([kind, target, bytes]) => {
        const data = new DataTransfer();
        data.items.add(new File([new Uint8Array(bytes)], "x.png", { type: "image/png" }));
        const given = { bubbles: true, cancelable: true };
        const event =
          kind === "paste"
            ? new ClipboardEvent(kind, { ...given, clipboardData: data })
            : new DragEvent(kind, { ...given, dataTransfer: data });
        document.querySelector(target)!.dispatchEvent(event);
      },
      [kind, target, [...png(200)]] as const,
    );
    await until(async () => expect(await pending.count()).toBe(kind === "paste" ? 2 : 3));
  }
  await takePicture(page);
  await until(async () => expect(await pending.count()).toBe(4));
  await page.getByRole("button", { name: "Remove image 4" }).click();
  if (process.env.WISP_UPDATE_SCREENSHOTS !== undefined) {
    await page.screenshot({ path: `${process.env.WISP_UPDATE_SCREENSHOTS}/images.png` });
  }
  await page.getByRole("textbox", { name: "Question" }).fill("What is it?");
  await page.keyboard.press("Enter");
  await page.locator(".answer .stats").waitFor();
  expect(await pending.count()).toBe(0);
  expect(await page.locator(".question img").count()).toBe(3);
  const [{ images, messages }] = engine.requests as [(typeof engine.requests)[number]];
  expect(images).toHaveLength(3);
  for (const image of images!)
    expect([...(image as Uint8Array).subarray(1, 4)]).toEqual([80, 78, 71]);
  expect(messages!.at(-1)!.content).toEqual([
    ...Array(3).fill({ type: "image" }),
    { type: "text", text: "What is it?" },
  ]);
  await page.reload();
  await page.locator(".question img").first().waitFor();
  await page.getByRole("button", { name: "Answer again" }).click();
  await until(() => expect(engine.requests).toHaveLength(2));
  expect(engine.requests[1]!.images).toEqual(images);
  expect(problems).toEqual([]);
});
