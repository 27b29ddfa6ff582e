/**
 * The package as people get it: packed into a tarball, and installed from that into an empty folder.
 *
 * The `shipped` project of the tests does it once before its files run.
 *
 * @module
 */
import { spawnSync } from "node:child_process";
import {
  existsSync,
  mkdirSync,
  readdirSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from "node:fs";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import type { TestProject } from "vitest/node";
import { shippedFolder } from "./built_files.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));

declare module "vitest" {
  export interface ProvidedContext {
    /** The folder that has the package in its node_modules, and the size of the tarball in bytes. */
    readonly shipped: { readonly folder: string; readonly tarballBytes: number };
  }
}

export default function setup(project: TestProject): () => void {
  const folder = shippedFolder();
  rmSync(folder, { recursive: true, force: true });
  mkdirSync(folder, { recursive: true });
  try {
    const tarball = pack(folder);
    install(folder, tarball);
    project.provide("shipped", { folder, tarballBytes: statSync(tarball).size });
  } catch (error) {
    rmSync(folder, { recursive: true, force: true });
    throw error;
  }
  return () => rmSync(folder, { recursive: true, force: true });
}

/** `npm pack`, which builds first. */
function pack(folder: string): string {
  npm(["pack", "--pack-destination", folder], root);
  const name = readdirSync(folder).find((file) => file.endsWith(".tgz"));
  if (name === undefined) throw new Error("Cannot install the package: npm packed none");
  const tarball = join(folder, "wisp.tgz");
  renameSync(join(folder, name), tarball);
  return tarball;
}

/**
 * With the dependencies that npm finds for it, from its cache where it has them, and beside them the
 * driver for machines without a GPU that developers have.
 */
function install(folder: string, tarball: string): void {
  writeFileSync(join(folder, "package.json"), '{ "private": true, "type": "module" }');
  const quiet = ["--ignore-scripts", "--no-audit", "--no-fund", "--prefer-offline"];
  npm(["install", ...quiet, tarball], folder);
  const driver = join("node_modules", "@sparticuz");
  if (existsSync(join(root, driver))) symlinkSync(join(root, driver), join(folder, driver));
}

function npm(args: readonly string[], cwd: string): void {
  // As a person's shell has it: under the test runner's NODE_ENV the build would be another one.
  const env = { ...process.env, VITEST: undefined, NODE_ENV: undefined };
  const run = spawnSync("npm", args, { cwd, env, encoding: "utf8", timeout: 300_000 });
  if (run.status === 0) return;
  throw new Error(`Cannot run npm ${args.join(" ")}: ${run.error ?? run.stdout + run.stderr}`);
}
