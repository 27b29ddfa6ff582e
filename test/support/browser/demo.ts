/**
 * The demo as its visitors get it: built, served as static files, opened in Chromium.
 *
 * @module
 */
import type { Browser, BrowserContextOptions, Page } from "playwright-core";
import { builtDemo } from "../package/built_package.ts";
import { type FileServer, filesIn, serveFiles } from "../server/file_server.ts";
import { launchChromium } from "./chromium.ts";

/** A folder deep in a server: the demo must not count on standing at its top. */
const FOLDER = "some/folder/";

export interface Demo {
  readonly browser: Browser;
  /** Of the chat's page. */
  readonly address: string;
  readonly server: FileServer;
  close(): Promise<void>;
}

/** The demo, or the reason why no browser starts here. */
export async function serveDemo(): Promise<Demo | string> {
  const browser = await launchChromium();
  if (typeof browser === "string") return browser;
  const files = [...filesIn(await builtDemo())].map(([name, bytes]) => {
    return [FOLDER + name, bytes] as const;
  });
  const server = await serveFiles(new Map(files));
  return {
    browser,
    server,
    address: `${server.url}${FOLDER}index.html`,
    close: async () => {
      await browser.close();
      await server.close();
    },
  };
}

export interface DemoPage {
  readonly page: Page;
  /** Uncaught errors and what the console warns of. */
  readonly problems: readonly string[];
}

/** A page in a profile of its own, so that nothing is stored from before. */
export async function openDemo(
  { browser }: Demo,
  options: BrowserContextOptions = {},
): Promise<DemoPage> {
  const profile = await browser.newContext(options);
  const page = await profile.newPage();
  const problems: string[] = [];
  page.on("pageerror", (error) => problems.push(String(error)));
  page.on("console", (message) => {
    // Files that a checkpoint may lack are asked for all the same.
    const isMissingFile = /status of 404/.test(message.text());
    if (["error", "warning"].includes(message.type()) && !isMissingFile)
      problems.push(message.text());
  });
  return { page, problems };
}

/** Asks, and waits until the answer is over. */
export async function ask(page: Page, question: string): Promise<void> {
  const answers = page.locator(".answer");
  const before = await answers.count();
  await page.getByRole("textbox", { name: "Question" }).fill(question);
  await page.getByRole("textbox", { name: "Question" }).press("Enter");
  await answers.nth(before).locator(".actions").waitFor();
}

/** Waits until the only answer has some characters, while more of them come. */
export const hasBegun = (page: Page, length: number) =>
  page.waitForFunction(
    (length) => (document.querySelector(".round > .markdown")?.textContent ?? "").length > length,
    length,
  );

export interface OnceBegun {
  /** Characters of the only answer. */
  readonly length: number;
  /** Of the element that is clicked or gets the key. */
  readonly selector: string;
  readonly how: "Escape" | "click";
}

/**
 * Has the page itself press a key or click once its answer has begun: what comes from outside may come
 * behind the end of the answer, on a machine that is busy.
 */
export const onceBegun = (page: Page, given: OnceBegun) =>
  page.evaluate(({ length, selector, how }) => {
    const observer = new MutationObserver(() => {
      const answer = document.querySelector(".round > .markdown")?.textContent ?? "";
      if (answer.length <= length) return;
      observer.disconnect();
      const element = document.querySelector<HTMLElement>(selector)!;
      if (how === "click") element.click();
      else element.dispatchEvent(new KeyboardEvent("keydown", { key: how, bubbles: true }));
    });
    observer.observe(document.body, { subtree: true, childList: true, characterData: true });
  }, given);
