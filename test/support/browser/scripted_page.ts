/**
 * A page of a few lines of script that imports the library by its name, built by Vite and served
 * with the embedded model at another origin, for a Chromium that tests drive.
 *
 * @module
 */
import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { Browser } from "playwright-core";
import { build } from "vite";
import { EMBEDDED_MODEL } from "../checkpoints/embedded_model.ts";
import { filesIn, serveFiles } from "../server/file_server.ts";
import { type ChromiumKind, launchChromium } from "./chromium.ts";

const source = (path: string) => fileURLToPath(new URL(`../../../src/${path}`, import.meta.url));
const PAGE =
  '<!doctype html><link rel="icon" href="data:,"><script type="module" src="./main.js"></script>';

export interface ScriptedPage {
  readonly browser: Browser;
  /** Of the page. */
  readonly address: string;
  readonly modelUrl: string;
  /** What the page's own server has. */
  readonly files: ReadonlyMap<string, Uint8Array>;
  close(): Promise<void>;
}

/**
 * The page, or the reason why no browser starts here.
 *
 * @param scripts By file name; the page runs `main.js`.
 * @param kind Default any Chromium.
 * @param folderOfModel Default the embedded model's.
 */
export async function servePage(
  scripts: Readonly<Record<string, string>>,
  kind?: ChromiumKind,
  folderOfModel = EMBEDDED_MODEL,
): Promise<ScriptedPage | string> {
  const browser = await launchChromium(kind);
  if (typeof browser === "string") return browser;
  const folder = mkdtempSync(join(tmpdir(), "wisp-page-"));
  const [root, outDir] = [join(folder, "source"), join(folder, "built")];
  mkdirSync(root);
  for (const [name, text] of Object.entries({ "index.html": PAGE, ...scripts })) {
    writeFileSync(join(root, name), text);
  }
  await build({
    root,
    configFile: false,
    logLevel: "error",
    worker: { format: "es" },
    resolve: {
      alias: [
        { find: /^wisp-llm$/, replacement: source("index.ts") },
        { find: /^wisp-llm\/browser$/, replacement: source("browser/index.ts") },
      ],
    },
    build: { outDir, target: "es2022", minify: false },
  });
  const files = filesIn(outDir);
  rmSync(folder, { recursive: true, force: true });
  const page = await serveFiles(files);
  const headers = { "access-control-allow-origin": "*" };
  const model = await serveFiles(filesIn(folderOfModel), { headers });
  return {
    browser,
    address: `${page.url}index.html`,
    modelUrl: model.url,
    files,
    close: async () => {
      await browser.close();
      await page.close();
      await model.close();
    },
  };
}
