/**
 * One run of a command in this process, with an engine that follows a script.
 *
 * @module
 */
import { runCommand } from "../../../src/node/command.ts";
import type { Input } from "../../../src/node/commands/command_context.ts";
import type { EngineLaunchOptions } from "../../../src/node/options/options.ts";
import type { StartEngine } from "../../../src/node/serve/start_engine.ts";
import { ScriptedEngine } from "../engines/scripted_engine.ts";

const READY = /^.*Ready: /m;
const CPU = { name: "llvmpipe", driver: "Mesa 25", backend: "Vulkan", isCpu: true } as const;

export interface CommandRun {
  readonly code: Promise<number>;
  /** Resolves when a server says that it is ready; rejects when the command ends before. */
  readonly isReady: Promise<void>;
  readonly engine: ScriptedEngine;
  /** What engines were started with. */
  readonly started: readonly EngineLaunchOptions[];
  /** Where the server listens. */
  url(): string;
  stdout(): string;
  /** Of the standard error, where the log goes. */
  lines(): readonly string[];
  stderr(): string;
}

/**
 * @param start Starts another engine, or none.
 * @param stdin What is piped in. Default: nothing can be.
 */
export function startCommand(
  args: readonly string[],
  engine: ScriptedEngine = new ScriptedEngine(),
  { start, stdin }: { readonly start?: StartEngine; readonly stdin?: Input } = {},
): CommandRun {
  const started: EngineLaunchOptions[] = [];
  let stdout = "";
  let stderr = "";
  let ready = () => {};
  const sawReady = new Promise<void>((resolve) => {
    ready = resolve;
  });
  const startEngine: StartEngine = async (options, report) => {
    started.push(options);
    report.model(options.modelPath ?? "default");
    report.adapter(CPU);
    report.sizes(["Memory: 1 GiB of weights"]);
    for (let done = 0; done <= 8; done++) report.progress({ phase: "weights", done, total: 8 });
    return engine;
  };
  const code = runCommand(args, {
    startEngine: start ?? startEngine,
    ...(stdin && { stdin }),
    stdout: {
      write: (text) => {
        stdout += text;
      },
    },
    stderr: {
      write: (text) => {
        stderr += text;
        if (READY.test(text)) ready();
      },
    },
  });
  const ended = code.then((exitCode) => {
    throw new Error(`Cannot wait: the command ended with ${exitCode}: ${stderr}`);
  });
  const isReady = Promise.race([sawReady, ended]);
  // The test need not wait for it.
  isReady.catch(() => {});
  return {
    code,
    isReady,
    engine,
    started,
    url: () => /Listening on ([^\s"]+)/.exec(stderr)![1]!,
    stdout: () => stdout,
    lines: () => stderr.trimEnd().split("\n"),
    stderr: () => stderr,
  };
}

/** Runs the handler that the newest command has put on the signal, as the signal would. */
export function sendSignal(name: "SIGTERM" | "SIGINT"): void {
  (process.listeners(name).at(-1) as (name: string, number: number) => void)(name, 15);
}
