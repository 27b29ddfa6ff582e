/**
 * The package as people get it: packed into a tarball, and installed from that into an empty folder.
 *
 * The projects of the tests that run the package do it once, before their files run.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readFileSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { TestProject } from "vitest/node";
import { sharedBuild } from "../../support/package/shared_builds.ts";
import { shippedFolder } from "./built_files.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));

declare module "vitest" {
  export interface ProvidedContext {
    /** The folder that has the package in its node_modules, and the size of the tarball in bytes. */
    readonly shipped: { readonly folder: string; readonly tarballBytes: number };
  }
}

export default async function setup(project: TestProject): Promise<() => void> {
  const folder = shippedFolder();
  const sizeFile = join(folder, "tarball_bytes");
  // Another project of this run has installed it.
  if (existsSync(sizeFile)) {
    project.provide("shipped", { folder, tarballBytes: Number(readFileSync(sizeFile, "utf8")) });
    return () => rmSync(folder, { recursive: true, force: true });
  }
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  try {
    const { builds } = project.getProvidedContext();
    const tarball = join(await sharedBuild(builds, "package"), "wisp.tgz");
    install(folder, tarball);
    const tarballBytes = statSync(tarball).size;
    writeFileSync(sizeFile, `${tarballBytes}`);
    project.provide("shipped", { folder, tarballBytes });
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
  return () => rmSync(folder, { recursive: true, force: true });
}

/**
 * With the dependencies that npm finds for it, from its cache where it has them, and beside them the
 * driver for machines without a GPU that developers have.
 */
function install(folder: string, tarball: string): void {
  writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }');
  const quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];
  try {
    npm(["install", ...quiet, tarball], folder);
  } catch (error) {
    console.log(
      `${(error as Error).message}\nThe tarball is unpacked beside our own packages instead`,
    );
    unpack(folder, tarball);
  }
  const driver = join("node_modules", "@sparticuz");
  const isThere = existsSync(join(folder, driver)) || !existsSync(join(root, driver));
  if (!isThere) symlinkSync(join(root, driver), join(folder, driver));
}

/** What npm would do, without a registry: the dependencies are those that this folder has. */
function unpack(folder: string, tarball: string): void {
  const modules = join(folder, "node_modules");
  rmSync(modules, { recursive: true, force: true });
  const installed = join(modules, "wisp-llm");
  mkdirSync(installed, { recursive: true });
  const { status } = spawnSync("tar", ["-xzf", tarball, "-C", installed, "--strip-components=1"]);
  if (status !== 0) throw new Error("Cannot install the package: tar cannot unpack it");
  const lock = JSON.parse(readFileSync(join(root, "package-lock.json"), "utf8"));
  for (const [path, entry] of Object.entries<{ readonly dev?: boolean }>(lock.packages)) {
    const isOurs = path === "" || entry.dev === true || path.split("node_modules/").length > 2;
    if (isOurs || !existsSync(join(root, path))) continue;
    mkdirSync(dirname(join(folder, path)), { recursive: true });
    symlinkSync(join(root, path), join(folder, path));
  }
  mkdirSync(join(modules, ".bin"));
  symlinkSync(join("..", "wisp-llm", "dist", "wisp.js"), join(modules, ".bin", "wisp"));
}

function npm(args: readonly string[], cwd: string): void {
  // As a person's shell has it: under the test runner's NODE_ENV the build would be another one.
  const env = { ...process.env, VITEST: undefined, NODE_ENV: undefined };
  const run = spawnSync("npm", args, { cwd, env, encoding: "utf8" });
  if (run.status === 0) return;
  throw new Error(`Cannot run npm ${args.join(" ")}: ${run.error ?? run.stdout + run.stderr}`);
}
