/**
 * How a chat looks in a terminal: answers as they are, what is said about them dim.
 *
 * @module
 */
import type { MessageEvent } from "../../text/message_parser.ts";
import type { Output } from "../observe/logger.ts";
import { shown } from "../terminal_text.ts";

const DIM = "\u001b[2m";
const PLAIN = "\u001b[0m";

export class ChatDisplay {
  readonly #stdout: Output;
  readonly #stderr: Output;
  readonly #isTerminal: boolean;
  readonly #isColoured: boolean;
  /** What the answer's text is in at the moment. */
  #mode: "content" | "dim" = "content";
  #isLineBegun = false;
  /** Whether anything of the answer has been shown, before which white space is dropped. */
  #hasBegun = false;

  constructor(stdout: Output, stderr: Output) {
    this.#stdout = stdout;
    this.#stderr = stderr;
    this.#isTerminal = stdout.isTTY === true;
    this.#isColoured = this.#isTerminal && (process.env.NO_COLOR ?? "") === "";
  }

  /** A line about the chat. Where the standard output is no terminal, it has the answers alone. */
  note(text: string): void {
    this.endLine();
    const line = shown(text);
    if (!this.#isTerminal) this.#stderr.write(`${line}\n`);
    else this.#stdout.write(this.#isColoured ? `${DIM}${line}${PLAIN}\n` : `${line}\n`);
  }

  /** More of an answer. */
  event(event: MessageEvent): void {
    switch (event.type) {
      case "content":
        this.#write(event.text, "content");
        break;
      case "reasoning":
        this.#write(event.text, "dim");
        break;
      case "call":
        this.endLine();
        this.#write(`${event.name} `, "dim");
        break;
      case "arguments":
        this.#write(event.text, "dim");
        break;
      case "callEnd":
        this.endLine();
        break;
      default:
        event satisfies never;
    }
  }

  /** Ends the line of the answer where it has not ended by itself. */
  endLine(): void {
    if (this.#isLineBegun) this.#output().write("\n");
    this.#isLineBegun = false;
    this.#hasBegun = false;
    this.#enter("content");
  }

  #write(text: string, mode: "content" | "dim"): void {
    if (mode !== this.#mode) {
      this.endLine();
      this.#enter(mode);
    }
    const rest = this.#hasBegun ? text : text.trimStart();
    if (rest === "") return;
    this.#hasBegun = true;
    const output = this.#output();
    // A terminal shows the standard error also where the standard output is a file.
    const isShown = this.#isTerminal || output === this.#stderr;
    output.write(isShown ? shown(rest) : rest);
    this.#isLineBegun = !rest.endsWith("\n");
  }

  #output(): Output {
    return this.#mode === "dim" && !this.#isTerminal ? this.#stderr : this.#stdout;
  }

  #enter(mode: "content" | "dim"): void {
    if (mode !== this.#mode && this.#isColoured) this.#stdout.write(mode === "dim" ? DIM : PLAIN);
    this.#mode = mode;
  }
}
