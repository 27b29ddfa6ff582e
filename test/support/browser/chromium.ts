/**
 * Starts a headless Chromium with WebGPU: the one in the npm package `@sparticuz/chromium`, which
 * brings its SwiftShader, its shared libraries and a font along and is the same on every machine,
 * else the machine's own. `WISP_TEST_CHROMIUM=installed` takes the machine's own first.
 *
 * @module
 */
import { randomUUID } from "node:crypto";
import { existsSync, mkdirSync, readFileSync, renameSync, rmSync, writeFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import { brotliDecompressSync } from "node:zlib";
import { type Browser, chromium } from "playwright-core";
import { cacheFolder } from "../../../src/node/cache_folder.ts";

const INSTALLED = ["/usr/bin/chromium", "/usr/bin/chromium-browser", "/usr/bin/google-chrome"];
const PACKAGE = fileURLToPath(
  new URL("../../../node_modules/@sparticuz/chromium", import.meta.url),
);
const TAR_BLOCK = 512;

const FLAGS = [
  "--no-sandbox",
  "--disable-quic",
  "--no-first-run",
  "--disable-background-networking",
  "--disable-component-update",
  "--disable-sync",
  "--enable-unsafe-webgpu",
];

export type ChromiumKind = "packaged" | "installed";

const installed = INSTALLED.filter((path) => existsSync(path));

/** Those that are here: for tests of what browsers do otherwise from one version to the next. */
export const CHROMIUMS: readonly ChromiumKind[] =
  installed.length > 0 ? ["packaged", "installed"] : ["packaged"];

/**
 * A running browser, or what happened to each Chromium that was tried.
 *
 * @param only Default: any of them.
 */
export async function launchChromium(only?: ChromiumKind): Promise<Browser | string> {
  const kinds: ChromiumKind[] = only === undefined ? ["packaged", "installed"] : [only];
  if (process.env.WISP_TEST_CHROMIUM === "installed") kinds.reverse();
  const problems: string[] = [];
  for (const kind of kinds) {
    for (const path of kind === "packaged" ? [PACKAGE] : installed) {
      try {
        return patient(await (kind === "packaged" ? launchPackaged() : launchInstalled(path)));
      } catch (error) {
        problems.push(problem(path, error));
      }
    }
  }
  return `no Chromium can be started here: ${problems.join("; ")}`;
}

/** Waits on its pages end with the test that waits: a busy machine takes many times what a free one does. */
function patient(browser: Browser): Browser {
  const newContext = browser.newContext.bind(browser);
  browser.newContext = async (options) => {
    const context = await newContext(options);
    context.setDefaultTimeout(0);
    return context;
  };
  return browser;
}

function launchInstalled(executablePath: string): Promise<Browser> {
  return chromium.launch({ executablePath, args: FLAGS });
}

async function launchPackaged(): Promise<Browser> {
  const folder = unpackedChromium();
  return chromium.launch({
    executablePath: join(folder, "chromium"),
    args: FLAGS,
    env: {
      ...process.env,
      LD_LIBRARY_PATH: `${folder}/lib:${folder}`,
      FONTCONFIG_FILE: join(folder, "wisp_fonts.conf"),
    },
  });
}

/** The first lines are the reason, the rest is the browser's log. */
function problem(path: string, error: unknown): string {
  return `${path}: ${String(error).split("\n").slice(0, 3).join(" ")}`;
}

/** The folder of the packaged Chromium, filled on first use. */
function unpackedChromium(): string {
  const manifest = readFileSync(join(PACKAGE, "package.json"), "utf8");
  const { version } = JSON.parse(manifest) as { readonly version: string };
  const folder = join(cacheFolder(), `chromium-${version}`);
  if (existsSync(folder)) return folder;
  // Filled beside the final place and renamed, so that two test runs at once agree.
  const draft = `${folder}.${process.pid}-${randomUUID().slice(0, 8)}`;
  mkdirSync(draft, { recursive: true });
  try {
    writeFileSync(join(draft, "chromium"), unbrotli("chromium.br"), { mode: 0o755 });
    for (const archive of ["swiftshader.tar.br", "al2023.tar.br", "fonts.tar.br"]) {
      untar(unbrotli(archive), draft);
    }
    writeFileSync(
      join(draft, "wisp_fonts.conf"),
      `<fontconfig><dir>${folder}/fonts</dir><cachedir>${folder}/font-cache</cachedir></fontconfig>`,
    );
    renameSync(draft, folder);
  } catch (error) {
    rmSync(draft, { recursive: true, force: true });
    if (!existsSync(folder)) throw error;
  }
  return folder;
}

function unbrotli(name: string): Buffer {
  return brotliDecompressSync(readFileSync(join(PACKAGE, "bin", name)));
}

/** Writes the plain files of an uncompressed tar archive into `folder`. */
function untar(tar: Buffer, folder: string): void {
  // Header: name in bytes 0-99, size in octal in 124-135, type in 156; contents in whole blocks.
  for (let at = 0; at + TAR_BLOCK <= tar.length; ) {
    const name = tar.toString("latin1", at, at + 100).replace(/\0.*$/s, "");
    if (name === "") return;
    const size = Number.parseInt(tar.toString("latin1", at + 124, at + 136), 8);
    const isFile = "0\0".includes(tar.toString("latin1", at + 156, at + 157));
    const start = at + TAR_BLOCK;
    if (isFile) {
      mkdirSync(dirname(join(folder, name)), { recursive: true });
      writeFileSync(join(folder, name), tar.subarray(start, start + size), { mode: 0o755 });
    }
    at = start + Math.ceil(size / TAR_BLOCK) * TAR_BLOCK;
  }
}
