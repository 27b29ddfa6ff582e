/**
 * Launchers and ranks as processes of their own, for tests and benches.
 *
 * @module
 */
import { type ChildProcess, spawn } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, mkdtempSync, readFileSync, rmSync } from "node:fs";
import { createServer } from "node:net";
import { join } from "node:path";
import { fileURLToPath } from "node:url";
import { build } from "vite";
import { buildShim } from "../../../src/node/mpi/build_shim.ts";
import { until } from "../until.ts";
import type { LauncherOptions } from "./launcher_program.ts";

const root = fileURLToPath(new URL("../../..", import.meta.url));

/** Why this machine cannot run ranks over MPI; undefined where it can. */
export function lackOfMpi(): string | undefined {
  try {
    buildShim();
  } catch (error) {
    return (error as Error).message;
  }
  const hasKoffi = existsSync(join(root, "node_modules", "koffi"));
  return hasKoffi ? undefined : "the optional dependency koffi is not installed";
}

/** Says once why tests are left out. */
export function tellLack(lack: string | undefined): void {
  if (lack !== undefined) console.log(`Tests of ranks over MPI are left out: ${lack}`);
}

/** The programs in JavaScript, as processes without Vite can run them. */
export class Programs {
  readonly #folder: string;

  private constructor(folder: string) {
    this.#folder = folder;
  }

  /** Where packages are found from. */
  static async build(): Promise<Programs> {
    const cache = join(root, "node_modules", ".cache");
    mkdirSync(cache, { recursive: true });
    const folder = mkdtempSync(join(cache, "wisp-ranks-"));
    const own = (name: string) => fileURLToPath(new URL(name, import.meta.url));
    await build({
      root,
      configFile: false,
      logLevel: "error",
      build: {
        ssr: true,
        outDir: folder,
        minify: false,
        rolldownOptions: {
          input: {
            launcher: own("launcher_program.ts"),
            rank: own("rank_program.ts"),
            thread: own("../threads/thread_program.ts"),
          },
          output: { entryFileNames: "[name].mjs" },
        },
      },
    });
    return new Programs(folder);
  }

  get launcher(): string {
    return join(this.#folder, "launcher.mjs");
  }

  get rank(): string {
    return join(this.#folder, "rank.mjs");
  }

  get thread(): string {
    return join(this.#folder, "thread.mjs");
  }

  remove(): void {
    rmSync(this.#folder, { recursive: true, force: true });
  }
}

export interface StartOptions extends Partial<Omit<LauncherOptions, "command">> {
  /** What ranks do, and an argument of it. */
  readonly program: string;
  readonly argument?: string;
  /** Node's options of ranks. */
  readonly flags?: readonly string[];
  readonly env?: Readonly<Record<string, string>>;
  /** What the launcher is run by: "ip netns exec NAME". */
  readonly prefix?: readonly string[];
}

export interface Ended {
  readonly code: number | null;
  readonly signal: NodeJS.Signals | null;
}

/** A launcher, which may have ranks. */
export class LauncherProcess {
  readonly process: ChildProcess;
  readonly ended: Promise<Ended>;
  stdout = "";
  stderr = "";

  constructor(programs: Programs, options: StartOptions) {
    const { program, argument = "", flags = [], env, prefix = [], ...given } = options;
    const launched: LauncherOptions = {
      ...{ nodes: 1, node: 0, ranksPerNode: 2, address: undefined, timeout: 60_000 },
      ...given,
      command: [process.execPath, ...flags, programs.rank, program, argument],
    };
    const command = [...prefix, process.execPath, programs.launcher, JSON.stringify(launched)];
    this.process = spawn(command[0]!, command.slice(1), {
      env: { ...process.env, ...env },
      stdio: ["ignore", "pipe", "pipe"],
    });
    this.process.stdout!.setEncoding("utf8").on("data", (text: string) => {
      this.stdout += text;
    });
    this.process.stderr!.setEncoding("utf8").on("data", (text: string) => {
      this.stderr += text;
    });
    // Ranks have its streams too, so that these end with the last of them.
    this.ended = once(this.process, "exit").then(([code, signal]) => ({ code, signal }));
  }

  /** All of the output, once every process that has it is gone. */
  async closed(): Promise<string> {
    await Promise.all([this.process.stdout, this.process.stderr].map(streamEnd));
    return this.stdout;
  }

  /** Waits until the output has a line. */
  async says(line: string | RegExp): Promise<void> {
    await until(() => {
      const { exitCode, signalCode } = this.process;
      const hasIt = typeof line === "string" ? this.stdout.includes(line) : line.test(this.stdout);
      if (hasIt) return;
      const state = `exit code ${exitCode}, ${signalCode}: ${this.stdout}${this.stderr}`;
      throw new Error(`Cannot see "${line}": ${state}`);
    });
  }

  /** Process id of a rank, once it has one. */
  async pidOf(rank: number): Promise<number> {
    const line = new RegExp(`^rank ${rank} is process (\\d+)$`, "m");
    await this.says(line);
    return Number(line.exec(this.stdout)![1]);
  }

  kill(signal: NodeJS.Signals = "SIGKILL"): void {
    this.process.kill(signal);
  }
}

async function streamEnd(stream: NodeJS.ReadableStream | null): Promise<void> {
  if (stream === null || (stream as { readableEnded?: boolean }).readableEnded) return;
  await once(stream, "end");
}

/** Whether a process is there; one that has ended and was not waited for is not. */
export function isAlive(pid: number): boolean {
  try {
    return !/^State:\s+[ZX]/m.test(readFileSync(`/proc/${pid}/status`, "utf8"));
  } catch {
    return false;
  }
}

/** A port of the loopback device that no program listens on. */
export async function freePort(): Promise<number> {
  const server = createServer().listen(0, "127.0.0.1");
  await once(server, "listening");
  const address = server.address();
  server.close();
  await once(server, "close");
  return (address as { readonly port: number }).port;
}

/** Runs a program of `group_programs.ts` on the ranks of nodes, and gives what it gave. */
export async function runOverMpi(
  programs: Programs,
  options: StartOptions & { readonly size: number; readonly prefixes?: readonly string[][] },
): Promise<readonly unknown[]> {
  const { size, nodes = 1, prefixes = [], address: given, ...rest } = options;
  const own = async () => (nodes === 1 ? undefined : { host: "127.0.0.1", port: await freePort() });
  const address = given ?? (await own());
  const launchers = Array.from({ length: nodes }, (_, node) => {
    const place = {
      nodes,
      node,
      address,
      ranksPerNode: size / nodes,
      prefix: prefixes[node] ?? [],
    };
    return new LauncherProcess(programs, { ...rest, ...place });
  });
  const text = () => launchers.map(({ stdout, stderr }) => stdout + stderr).join("");
  const outcome = (rank: number) => outcomeIn(text(), rank);
  const ranks = Array.from({ length: size }, (_, rank) => rank);
  try {
    await until(() => {
      if (ranks.every((rank) => outcome(rank) !== undefined)) return;
      throw new Error(`Cannot see the outcome of all ranks: ${text()}`);
    });
    return ranks.map((rank) => JSON.parse(outcome(rank)!));
  } finally {
    // Ranks that have failed wait for it; others are about to end.
    for (const launcher of launchers) launcher.kill("SIGTERM");
    await Promise.all(launchers.map(({ ended }) => ended));
  }
}

/** The JSON that a rank has said. */
export function outcomeIn(text: string, rank: number): string | undefined {
  return new RegExp(`^outcome of ${rank}: (.*)$`, "m").exec(text)?.[1];
}
