/**
 * The files of the page at `/`, as the package has them.
 *
 * @module
 */
import { readdir, readFile } from "node:fs/promises";
import { extname, join } from "node:path";
import type { WebFile, WebPage } from "../../server/routes/web_page.ts";
import type { Logger } from "../observe/logger.ts";
import { webPageFolder } from "../package_root.ts";

const TYPES: Readonly<Record<string, string>> = {
  ".html": "text/html; charset=utf-8",
  ".js": "text/javascript; charset=utf-8",
  ".css": "text/css; charset=utf-8",
};

/** Of the page's other files, beside `index.html`. */
const ASSETS = "page";

/** The page, unless an option says that there is none. From sources alone there is none to serve. */
export async function openWebPage(
  { disableWebPage }: { readonly disableWebPage: boolean },
  log: Logger,
): Promise<WebPage | undefined> {
  if (disableWebPage) return undefined;
  const page = await readWebPage(webPageFolder());
  if (page === undefined) log.line("warning", "Warning: no page at /, as it has not been built");
  return page;
}

/** Where a person on this machine opens the page of a server. */
export function webPageAddress(url: string): string {
  return `${url.replace(/\/\/(0\.0\.0\.0|\[::\]):/, "//localhost:")}/`;
}

/** @returns The page, or undefined where its folder is not there: it is made by the build. */
export async function readWebPage(folder: string): Promise<WebPage | undefined> {
  const names = await readdir(join(folder, ASSETS)).catch((error: NodeJS.ErrnoException) => {
    if (error.code === "ENOENT") return undefined;
    throw error;
  });
  if (names === undefined) return undefined;
  const files = new Map<string, WebFile>();
  files.set("/", await readWebFile(join(folder, "index.html")));
  for (const name of names)
    files.set(`/${ASSETS}/${name}`, await readWebFile(join(folder, ASSETS, name)));
  return files;
}

async function readWebFile(path: string): Promise<WebFile> {
  const type = TYPES[extname(path)];
  if (type === undefined) throw new Error(`Cannot serve ${path}: its media type is not known`);
  return { bytes: new Uint8Array(await readFile(path)), type };
}
