/**
 * Servers in processes of their own: the bench's client then takes no time of theirs.
 *
 * @module
 */
import { type ChildProcess, fork } from "node:child_process";
import { mkdirSync, rmSync } from "node:fs";
import { join, resolve } from "node:path";
import { fileURLToPath } from "node:url";
import { build, type Plugin } from "vite";

const root = fileURLToPath(new URL("../..", import.meta.url));
const folder = join(root, ".cache", `serve-${process.pid}`);

/** The models that a server can have: that of the checkpoint, or one that computes nothing. */
export type ServedModel = "null" | "real";

export interface MeasuredProcess {
  readonly url: string;
  /** Seconds of processor time so far, of all its threads. */
  cpuSeconds(): Promise<number>;
  /** Bytes that it takes of the machine's memory. */
  memory(): Promise<number>;
  /** Bytes of JavaScript that something holds; of processes with `--expose-gc` that count them. */
  held(): Promise<number>;
  close(): Promise<void>;
}

/** What a process says of itself. */
interface Figures {
  readonly cpu: NodeJS.CpuUsage;
  readonly memory: number;
  readonly held?: number;
}

/** Bundles the server; a bundle is what users run, and what a bench's transforms leave alone. */
export async function buildServer(model: ServedModel): Promise<string> {
  const outDir = join(folder, model);
  const nullLoad = fileURLToPath(new URL("./null_load.ts", import.meta.url));
  const replaceLoad: Plugin = {
    name: "null-load",
    enforce: "pre",
    resolveId: (id, importer) =>
      id === "./load/load.ts" && importer?.endsWith("src/engine/engine.ts") ? nullLoad : undefined,
  };
  const entry = fileURLToPath(new URL("./serve_child.ts", import.meta.url));
  await build({
    root,
    logLevel: "error",
    plugins: model === "null" ? [replaceLoad] : [],
    build: { outDir, emptyOutDir: true, lib: { entry: { serve_child: entry }, formats: ["es"] } },
  });
  return join(outDir, "serve_child.js");
}

/** Removes what was built. */
export function removeServers(): void {
  rmSync(folder, { recursive: true, force: true });
}

/** WISP_BENCH_PROFILE names a folder for the servers' processor profiles. */
function profiling(): string[] {
  const profiles = process.env.WISP_BENCH_PROFILE;
  if (profiles === undefined) return [];
  mkdirSync(resolve(profiles), { recursive: true });
  return ["--cpu-prof", `--cpu-prof-dir=${resolve(profiles)}`];
}

export async function startServer(
  script: string,
  mode: string,
  options: object,
  flags: readonly string[] = [],
): Promise<MeasuredProcess> {
  const execArgv = [...profiling(), ...flags];
  const child = fork(script, [mode, JSON.stringify(options)], { execArgv });
  const { url } = (await answerOf(child)) as { readonly url: string };
  const asked = async (message: "figures" | "held") => {
    const answer = answerOf(child);
    child.send(message);
    return (await answer) as Figures;
  };
  const figures = () => asked("figures");
  return {
    url,
    async cpuSeconds() {
      const { cpu } = await figures();
      return (cpu.user + cpu.system) / 1e6;
    },
    memory: async () => (await figures()).memory,
    held: async () => (await asked("held")).held!,
    async close() {
      const closed = new Promise((resolve) => child.once("exit", resolve));
      child.disconnect();
      await closed;
    },
  };
}

function answerOf(child: ChildProcess): Promise<unknown> {
  return new Promise((resolve, reject) => {
    const onExit = (code: number | null) => reject(new Error(`the server ended with ${code}`));
    child.once("exit", onExit);
    child.once("message", (message) => {
      child.off("exit", onExit);
      resolve(message);
    });
  });
}
