/**
 * The installed program `wisp` as a process: one that runs to its end, and one that serves.
 *
 * @module
 */
import { type ChildProcess, spawn, spawnSync } from "node:child_process";
import { once } from "node:events";
import { existsSync, mkdirSync, readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { inject } from "vitest";
import { cacheFolder } from "../../../src/node/cache_folder.ts";

export interface WispOptions {
  /** Variables beside those that every run has; `undefined` takes one away. */
  readonly env?: Readonly<Record<string, string | undefined>>;
  /** What the process reads from its standard input. Default nothing: it ends at once. */
  readonly input?: string;
  /** Folder of another installation than the tarball's. */
  readonly folder?: string;
  /** The program, with its arguments, that starts Node. */
  readonly launcher?: readonly string[];
}

export interface EndedWisp {
  /** `null` when a signal that the process did not handle has ended it. */
  readonly code: number | null;
  readonly stdout: string;
  readonly stderr: string;
}

export interface ServingWisp {
  readonly url: string;
  readonly process: ChildProcess;
  /** Both outputs, as they came. */
  output(): string;
  stdout(): string;
  /** Resolves once both outputs together match. */
  sees(text: RegExp): Promise<void>;
  get(path: string, headers?: Readonly<Record<string, string>>): Promise<Response>;
  post(path: string, body: unknown, headers?: Readonly<Record<string, string>>): Promise<Response>;
  /** @returns How the process ended. */
  stop(signal?: NodeJS.Signals): Promise<EndedWisp>;
}

/** The folder with the tarball's installation. */
export const shipped = (): string => inject("shipped").folder;

/** A new folder of the run's own. */
export function scratch(name: string): string {
  const folder = join(shipped(), "scratch", `${name}-${process.pid}-${counter++}`);
  mkdirSync(folder, { recursive: true });
  return folder;
}

let counter = 0;

/** The adapter that the tests run on: the one asked for, else the best driver for the CPU. */
export function adapterName(): "lavapipe" | "swiftshader" {
  const { WISP_ADAPTER } = process.env;
  if (WISP_ADAPTER === "lavapipe" || WISP_ADAPTER === "swiftshader") return WISP_ADAPTER;
  return hasLavapipe() ? "lavapipe" : "swiftshader";
}

/** Whether Mesa's driver for the CPU is installed; that of Mesa 22 is no adapter for Dawn. */
function hasLavapipe(): boolean {
  const folder = "/usr/share/vulkan/icd.d";
  const names = existsSync(folder) ? readdirSync(folder) : [];
  return names
    .filter((name) => /^lvp_icd.*\.json$/.test(name))
    .some((name) => {
      const { ICD } = JSON.parse(readFileSync(join(folder, name), "utf8"));
      return Number(/^1\.(\d+)/.exec(ICD.api_version)?.[1]) >= 4;
    });
}

/**
 * As little of this machine as a run can do with: no settings of the person who tests, an empty home,
 * and only the cache of compiled shaders shared, without which every start would compile again.
 */
export function environment(extra: WispOptions["env"] = {}): NodeJS.ProcessEnv {
  const { PATH, VK_ICD_FILENAMES, VK_DRIVER_FILES, LD_LIBRARY_PATH } = process.env;
  const home = join(shipped(), "home");
  mkdirSync(home, { recursive: true });
  return {
    PATH,
    VK_ICD_FILENAMES,
    VK_DRIVER_FILES,
    LD_LIBRARY_PATH,
    HOME: home,
    // On a machine with a GPU too.
    WISP_ADAPTER: adapterName(),
    MESA_SHADER_CACHE_DIR: process.env.MESA_SHADER_CACHE_DIR ?? join(cacheFolder(), "mesa"),
    ...extra,
  };
}

/** Processes that have not ended. */
const running = new Set<ChildProcess>();

/** Node itself, in the folder of an installation. */
function node(args: readonly string[], options: WispOptions): ChildProcess {
  const { folder = shipped(), env, input = "", launcher = [] } = options;
  const [file, ...words] = [...launcher, process.execPath, ...args] as [string, ...string[]];
  const child = spawn(file, words, { cwd: folder, env: environment(env) });
  running.add(child);
  child.once("close", () => running.delete(child));
  child.stdin!.on("error", () => {});
  child.stdin!.end(input);
  return child;
}

/** The program: as npm has linked it in the tarball's installation. */
function linked(folder?: string): string {
  if (folder === undefined) return join(shipped(), "node_modules", ".bin", "wisp");
  return join(folder, "node_modules", "wisp-llm", "dist", "wisp.js");
}

function collect(child: ChildProcess) {
  const texts = { stdout: "", stderr: "", all: "" };
  for (const name of ["stdout", "stderr"] as const) {
    child[name]!.setEncoding("utf8").on("data", (text: string) => {
      texts[name] += text;
      texts.all += text;
      child.emit("text");
    });
  }
  return texts;
}

/** Runs `wisp` to its end. */
export async function wisp(args: readonly string[], options: WispOptions = {}): Promise<EndedWisp> {
  return ended(node([linked(options.folder), ...args], options));
}

/** Where there is no pseudo-terminal: what is missing. Undefined where there is one. */
export function terminalProblem(): string | undefined {
  const { stdout } = spawnSync("script", ["--version"], { encoding: "utf8" });
  return stdout?.includes("util-linux")
    ? undefined
    : "no script of util-linux makes a terminal here";
}

export interface TerminalWisp {
  /** All that the terminal has shown. */
  output(): string;
  /**
   * Types, and waits until what has been shown since then matches; without keys, what has been shown
   * behind the last match.
   */
  type(keys: string, shows: RegExp): Promise<void>;
  /** @returns The exit code. */
  ended(): Promise<number | null>;
}

/** Runs `wisp` in a terminal of its own. */
export function terminalWisp(args: readonly string[]): TerminalWisp {
  const words = [process.execPath, linked(), ...args].map((word) => `'${word}'`);
  const command = ["-qec", words.join(" "), "/dev/null"];
  const env = { ...environment(), TERM: "xterm" };
  const child = spawn("script", command, { cwd: shipped(), env });
  running.add(child);
  const closed = once(child, "close") as Promise<[number | null]>;
  closed.then(() => {
    running.delete(child);
    child.emit("text");
  });
  const texts = collect(child);
  let seen = 0;
  return {
    output: () => texts.all,
    async type(keys, shows) {
      const from = keys === "" ? seen : texts.all.length;
      child.stdin.write(keys);
      for (;;) {
        const found = shows.exec(texts.all.slice(from));
        if (found !== null) {
          seen = from + found.index + found[0].length;
          return;
        }
        if (!running.has(child)) throw new Error(`Cannot find ${shows} in ${texts.all}`);
        await once(child, "text");
      }
    },
    ended: async () => (await closed)[0],
  };
}

/** Runs the text of a module that imports the package. */
export async function program(text: string, options: WispOptions = {}): Promise<EndedWisp> {
  return ended(node(["--input-type=module", "--eval", text], options));
}

async function ended(child: ChildProcess): Promise<EndedWisp> {
  const texts = collect(child);
  const [code] = (await once(child, "close")) as [number | null];
  return { code, stdout: texts.stdout, stderr: texts.stderr };
}

/** A line of the log that says where a server listens. */
const LISTENS = /Listening on (http:\/\/[^\s"]+)\S*\n/;

export interface ServeOptions extends WispOptions {
  /** Default launch_server. */
  readonly command?: readonly string[];
  /** The line that says where it listens, its first group being the address. */
  readonly listens?: RegExp;
}

export interface StartedWisp extends Pick<ServingWisp, "process" | "output" | "stdout" | "sees"> {
  stderr(): string;
  /** Resolves with its exit code once it has ended and its outputs are read. */
  readonly closed: Promise<readonly [number | null]>;
}

/** Runs `wisp`, and waits for nothing. */
export function startWisp(args: readonly string[], options: WispOptions = {}): StartedWisp {
  const child = node([linked(options.folder), ...args], options);
  const texts = collect(child);
  const closed = once(child, "close") as Promise<[number | null]>;
  let hasEnded = false;
  closed.then(() => {
    hasEnded = true;
    child.emit("text");
  });
  const sees = async (text: RegExp) => {
    while (!text.test(texts.all)) {
      if (hasEnded) throw new Error(`Cannot find ${text}: the process ended with ${texts.all}`);
      await once(child, "text");
    }
  };
  const { stdout, stderr, all } = {
    stdout: () => texts.stdout,
    stderr: () => texts.stderr,
    all: () => texts.all,
  };
  return { process: child, output: all, stdout, stderr, sees, closed };
}

/** Runs `wisp launch_server`, or another command that serves, until it listens and is healthy. */
export async function serveWisp(
  args: readonly string[],
  options: ServeOptions = {},
): Promise<ServingWisp> {
  const { command = ["launch_server"], listens = LISTENS } = options;
  const started = startWisp([...command, "--port", "0", ...args], options);
  const { process: child, output, stdout, sees, closed } = started;
  await sees(listens);
  const url = listens.exec(output())![1]!;
  const server: ServingWisp = {
    ...{ url, process: child, output, stdout, sees },
    get: (path, headers = {}) => fetch(url + path, { headers }),
    post: (path, body, headers = {}) =>
      fetch(url + path, {
        method: "POST",
        headers: { "content-type": "application/json", ...headers },
        body: JSON.stringify(body),
      }),
    async stop(signal = "SIGTERM") {
      child.kill(signal);
      const [code] = await closed;
      return { code, stdout: stdout(), stderr: started.stderr() };
    },
  };
  while (!(await isHealthy(server))) {
    if (child.exitCode !== null || child.signalCode !== null) {
      throw new Error(`Cannot serve: the process ended with ${output()}`);
    }
    await new Promise((resolve) => setTimeout(resolve, 20));
  }
  return server;
}

async function isHealthy(server: ServingWisp): Promise<boolean> {
  try {
    return (await server.get("/health")).status === 200;
  } catch {
    // The connection was kept from the last question, and the server has closed it meanwhile.
    return false;
  }
}

/** Ends what a file of tests has left running. */
export async function stopAll(): Promise<void> {
  await Promise.all(
    [...running].map((child) => {
      child.kill("SIGKILL");
      return once(child, "close");
    }),
  );
}
