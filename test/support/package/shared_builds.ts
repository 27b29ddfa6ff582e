/**
 * One build of the package and one of the demo for all tests of a run, whatever processes they run
 * in. The process of the test runner makes each when the first test asks for it, and deletes all
 * when the run is over.
 *
 * The package is built as `npm pack` builds it, so that all tests have the files that users get.
 *
 * @module
 */
import { spawn } from "node:child_process";
import {
  cpSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  renameSync,
  rmSync,
  symlinkSync,
} from "node:fs";
import { createServer } from "node:http";
import type { AddressInfo } from "node:net";
import { tmpdir } from "node:os";
import { basename, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { TestProject } from "vitest/node";

declare module "vitest" {
  export interface ProvidedContext {
    /** Address under which the runner answers with the folder of a build, once that is made. */
    readonly builds: string;
  }
}

const root = fileURLToPath(new URL("../../..", import.meta.url));

/** Makes a build in `folder`. */
const BUILDS: Readonly<Record<string, (folder: string) => Promise<void>>> = {
  /** A copy of the sources with the built files in `dist`, and the tarball `wisp.tgz`. */
  async package(folder) {
    // In a copy, as a server may be using what is built here.
    const isSource = (path: string) => !["node_modules", ".git", ".cache"].includes(basename(path));
    for (const name of readdirSync(root).filter((entry) => isSource(entry) && entry !== "dist")) {
      const options = { recursive: true, verbatimSymlinks: true, filter: isSource };
      cpSync(join(root, name), join(folder, name), options);
    }
    symlinkSync(join(root, "node_modules"), join(folder, "node_modules"));
    await run("npm", ["pack"], folder);
    const name = readdirSync(folder).find((file) => file.endsWith(".tgz"));
    if (name === undefined) throw new Error("Cannot build the package: npm packed none");
    renameSync(join(folder, name), join(folder, "wisp.tgz"));
  },
  /** The files of the demo. */
  async demo(folder) {
    const config = join(root, "examples", "browser", "vite.config.ts");
    const vite = join(root, "node_modules", "vite", "bin", "vite.js");
    const options = ["--outDir", folder, "--emptyOutDir", "--minify", "false"];
    await run(process.execPath, [vite, "build", "--config", config, ...options], root);
  },
};

interface BuildServer {
  readonly url: string;
  close(): void;
}

/** On the global object, because the runner loads this module once for each project. */
const shared = globalThis as { wispBuilds?: Promise<BuildServer> };

export default async function setup(project: TestProject): Promise<() => Promise<void>> {
  shared.wispBuilds ??= serveBuilds();
  const server = await shared.wispBuilds;
  project.provide("builds", server.url);
  // The runner ends all projects together.
  return async () => server.close();
}

async function serveBuilds(): Promise<BuildServer> {
  const folder = mkdtempSync(join(tmpdir(), "wisp-builds-"));
  const made = new Map<string, Promise<string>>();
  const make = async (name: string): Promise<string> => {
    const own = join(folder, name);
    mkdirSync(own);
    await BUILDS[name]!(own);
    return own;
  };
  const server = createServer(async (request, response) => {
    const name = request.url!.slice(1);
    if (!made.has(name)) made.set(name, make(name));
    try {
      response.end(await made.get(name));
    } catch (error) {
      response.statusCode = 500;
      response.end(String(error));
    }
  });
  await new Promise<void>((resolve) => server.listen(0, "127.0.0.1", resolve));
  return {
    url: `http://127.0.0.1:${(server.address() as AddressInfo).port}`,
    close: () => {
      server.close();
      server.closeAllConnections();
      rmSync(folder, { recursive: true, force: true });
    },
  };
}

/** The folder of a build, once it is made. */
export async function sharedBuild(builds: string, name: string): Promise<string> {
  const response = await fetch(`${builds}/${name}`);
  const text = await response.text();
  if (!response.ok) throw new Error(text);
  return text;
}

async function run(command: string, args: readonly string[], cwd: string): Promise<void> {
  // As a person's shell has it: under the test runner's NODE_ENV the build would be another one.
  const env = { ...process.env, VITEST: undefined, NODE_ENV: undefined };
  const child = spawn(command, args, { cwd, env, stdio: ["ignore", "pipe", "pipe"] });
  let output = "";
  for (const stream of [child.stdout, child.stderr]) {
    stream.setEncoding("utf8").on("data", (text: string) => {
      output += text;
    });
  }
  const code = await new Promise<number | null>((resolve, reject) => {
    child.once("error", reject);
    child.once("close", resolve);
  });
  if (code !== 0) throw new Error(`Cannot run ${command} ${args.join(" ")}: ${output}`);
}
