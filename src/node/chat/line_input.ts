/**
 * Where the lines of a chat come from: a person at a terminal, or a pipe.
 *
 * @module
 */
import { createInterface, type Interface } from "node:readline";
import { Writable } from "node:stream";
import type { Input } from "../commands/command_context.ts";
import type { Output } from "../observe/logger.ts";

export interface LineInput {
  /** The next line; undefined once there are no more. "interrupt" where Ctrl-C came instead. */
  read(prompt: string): Promise<string | undefined | typeof INTERRUPT>;
  /** Is called at Ctrl-C while nothing is read; undefined has nothing called. */
  onInterrupt: (() => void) | undefined;
  close(): void;
}

export const INTERRUPT = Symbol("interrupt");

/** Lines of a pipe, or those that a person edits, with the arrow keys to those before. */
export function openLines(stdin: Input | undefined, stdout: Output): LineInput {
  if (stdin?.isTTY === true && stdout.isTTY === true) {
    return new TerminalLines(stdin as unknown as NodeJS.ReadStream, stdout);
  }
  return new PipedLines(stdin);
}

class TerminalLines implements LineInput {
  onInterrupt: (() => void) | undefined;
  readonly #editor: Interface;
  readonly #stdout: Output;
  /** Lines that were written while an answer came. */
  readonly #early: string[] = [];
  #isShown = false;
  #hasEnded = false;
  #settle: ((line: string | undefined | typeof INTERRUPT) => void) | undefined;

  constructor(stdin: NodeJS.ReadStream, stdout: Output) {
    this.#stdout = stdout;
    const output = new Writable({
      // What is written while an answer comes is not shown in the middle of it.
      write: (chunk, _, done) => {
        if (this.#isShown) stdout.write(String(chunk));
        done();
      },
    });
    Object.assign(output, { columns: stdout.columns });
    this.#editor = createInterface({ input: stdin, output, terminal: true });
    this.#editor.on("line", (line) => {
      if (this.#settle === undefined) this.#early.push(line);
      else this.#answer(line);
    });
    this.#editor.on("SIGINT", () => this.#interrupt());
    this.#editor.on("close", () => {
      this.#hasEnded = true;
      this.#answer(undefined);
    });
  }

  read(prompt: string): Promise<string | undefined | typeof INTERRUPT> {
    const early = this.#early.shift();
    if (early !== undefined) return Promise.resolve(early);
    if (this.#hasEnded) return Promise.resolve(undefined);
    return new Promise((resolve) => {
      this.#settle = resolve;
      this.#isShown = true;
      this.#editor.setPrompt(prompt);
      this.#editor.prompt(true);
    });
  }

  close(): void {
    this.#editor.close();
  }

  /** At the prompt it takes the line back, elsewhere it stops what runs. */
  #interrupt(): void {
    if (this.#settle === undefined) {
      this.onInterrupt?.();
      return;
    }
    this.#editor.write(null, { ctrl: true, name: "e" });
    this.#editor.write(null, { ctrl: true, name: "u" });
    this.#answer(INTERRUPT);
  }

  #answer(line: string | undefined | typeof INTERRUPT): void {
    const settle = this.#settle;
    // No Enter has ended the line of the prompt.
    if (typeof line !== "string" && settle !== undefined) this.#stdout.write("\n");
    this.#settle = undefined;
    this.#isShown = false;
    settle?.(line);
  }
}

class PipedLines implements LineInput {
  onInterrupt: (() => void) | undefined;
  readonly #lines: AsyncGenerator<string, void>;

  constructor(stdin: Input | undefined) {
    this.#lines = linesOf(stdin);
  }

  async read(): Promise<string | undefined> {
    const { done, value } = await this.#lines.next();
    return done ? undefined : value;
  }

  close(): void {
    void this.#lines.return();
  }
}

async function* linesOf(stdin: Input | undefined): AsyncGenerator<string, void> {
  const decoder = new TextDecoder();
  let pending = "";
  for await (const piece of stdin ?? []) {
    pending += typeof piece === "string" ? piece : decoder.decode(piece, { stream: true });
    const lines = pending.split("\n");
    pending = lines.pop()!;
    for (const line of lines) yield line.replace(/\r$/, "");
  }
  pending += decoder.decode();
  if (pending !== "") yield pending;
}
