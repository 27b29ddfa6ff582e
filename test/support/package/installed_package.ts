/**
 * A project that has the built package installed, and what Vite makes of its page.
 *
 * @module
 */
import { copyFileSync, cpSync, mkdirSync, symlinkSync, writeFileSync } from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";
import { filesIn } from "../server/file_server.ts";
import { builtPackage } from "./built_package.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));

/** Puts the built package into `folder`/node_modules, with other packages of ours beside it. */
export async function installPackage(
  folder: string,
  neighbours: readonly string[] = [],
): Promise<string> {
  const installed = join(folder, "node_modules", "wisp-llm");
  mkdirSync(installed, { recursive: true });
  writeFileSync(join(folder, "package.json"), '{ "type": "module" }');
  copyFileSync(join(root, "package.json"), join(installed, "package.json"));
  cpSync(await builtPackage(), join(installed, "dist"), { recursive: true });
  for (const name of neighbours) {
    symlinkSync(join(root, "node_modules", name), join(folder, "node_modules", name));
  }
  return installed;
}

/** A page of one program, main.js. */
export const PAGE =
  '<!doctype html><link rel="icon" href="data:,"><script type="module" src="./main.js"></script>';

/** The files of a page with this program, bundled from the installed package in `folder`. */
export async function bundlePage(
  folder: string,
  program: string,
): Promise<ReadonlyMap<string, Uint8Array>> {
  writeFileSync(join(folder, "index.html"), PAGE);
  writeFileSync(join(folder, "main.js"), program);
  const outDir = join(folder, "built");
  await build({
    root: folder,
    base: "./",
    configFile: false,
    logLevel: "error",
    worker: { format: "es" },
    build: { outDir, emptyOutDir: true, target: "es2022" },
  });
  cpSync(
    join(folder, "node_modules/wisp-llm/dist/browser_service_worker.js"),
    join(outDir, "browser_service_worker.js"),
  );
  return filesIn(outDir);
}

/** The files of a page with this program, which imports the package's files as they are. */
export function plainPage(installed: string, program: string): ReadonlyMap<string, Uint8Array> {
  const files = new Map<string, Uint8Array>();
  for (const [name, bytes] of filesIn(join(installed, "dist"))) files.set(`dist/${name}`, bytes);
  files.set("index.html", Buffer.from(PAGE));
  files.set("main.js", Buffer.from(program));
  return files;
}
