/**
 * A model's answer as it grows -> its text and its tool calls.
 *
 * A call begins once its header is complete and names a tool of the request. Its name is told at
 * once, and from then on its arguments as they are generated. Everything that is no call is content,
 * malformed headers and unknown names included. White space between a call and what is beside it is
 * neither: it is dropped before a call, between two, and behind the last one.
 *
 * @module
 */
import { type PieceReader, type Reading, Transducer } from "../piece_reader.ts";
import { TrailingSpace } from "../trailing_space.ts";

export type ToolCallEvent =
  | { readonly type: "content"; readonly text: string }
  /** A call begins; `index` counts them from 0. */
  | { readonly type: "call"; readonly index: number; readonly id: string; readonly name: string }
  /** More of the arguments' JSON text, as the model wrote it. */
  | { readonly type: "arguments"; readonly index: number; readonly text: string }
  | { readonly type: "callEnd"; readonly index: number };

/** How a model writes calls. */
export interface CallFormat {
  /** Marks that may be special tokens: the text has to show them. */
  readonly marks: readonly string[];
  /** Characters with which a call may begin. */
  readonly begins: RegExp;
  /**
   * Reads one call or a list of them, with the marks around, telling `sink` what it finds.
   *
   * @returns False where there is no call of a tool: what was read until then is content.
   */
  read(reader: PieceReader, sink: CallSink): Reading<boolean>;
}

/** Where a format tells what it reads. */
export interface CallSink {
  /** Whether nothing but white space came before. */
  readonly isFirst: boolean;
  /** Whether the request has a tool of that name. */
  knows(name: string): boolean;
  /** Text behind a call that turned out to be none. */
  content(text: string): void;
  /** The header is complete. A call of an unknown tool is read to its end, and makes no event. */
  begin(name: string): void;
  /** More of the arguments. */
  write(text: string): void;
  /**
   * The call is over. Without a word for arguments it has none, which is an empty object.
   *
   * @returns Whether it was a call of a tool.
   */
  finish(): boolean;
}

export interface ToolCallOptions {
  /** Names of the request's functions. */
  readonly tools: readonly string[];
  /** Makes the id of a call. Default "call_" and 24 random hexadecimal digits. */
  readonly newId?: () => string;
}

/** Parses one answer. */
export class ToolCallParser {
  readonly #transducer: Transducer<ToolCallEvent>;

  constructor(format: CallFormat, options: ToolCallOptions) {
    this.#transducer = new Transducer(
      (reader, emit) => parse(reader, format, new CallEvents(options, emit)),
      joinEvents,
    );
  }

  push(text: string): ToolCallEvent[] {
    return this.#transducer.push(text);
  }

  /** The answer is over: what was held back is told. */
  end(): ToolCallEvent[] {
    return this.#transducer.end();
  }
}

function* parse(reader: PieceReader, format: CallFormat, events: CallEvents): Reading<void> {
  for (;;) {
    events.content(reader.takeUntil(format.begins));
    reader.forget();
    const start = reader.position;
    const character = yield* reader.peek();
    if (character === undefined) break;
    if (!format.begins.test(character)) continue;
    if (yield* format.read(reader, events)) continue;
    if (reader.position === start) reader.skip();
    events.content(reader.textSince(start));
  }
  events.end();
}

/** What a format finds, as events. */
export class CallEvents implements CallSink {
  readonly #tools: ReadonlySet<string>;
  readonly #newId: () => string;
  readonly #emit: (event: ToolCallEvent) => void;
  /** Is content only if text follows. */
  readonly #space = new TrailingSpace();
  /** What came last. */
  #last: "nothing" | "text" | "call" = "nothing";
  #count = 0;
  /** Whether the call that is read now is one of a tool, and has had arguments. */
  #isKnown = false;
  #hasArguments = false;

  constructor({ tools, newId = newCallId }: ToolCallOptions, emit: (event: ToolCallEvent) => void) {
    this.#tools = new Set(tools);
    this.#newId = newId;
    this.#emit = emit;
  }

  get isFirst(): boolean {
    return this.#last === "nothing";
  }

  knows(name: string): boolean {
    return this.#tools.has(name);
  }

  content(text: string): void {
    const certain = this.#space.push(text);
    if (certain === "") return;
    this.#emit({ type: "content", text: certain });
    this.#last = "text";
  }

  begin(name: string): void {
    this.#isKnown = this.knows(name);
    this.#hasArguments = false;
    if (!this.#isKnown) return;
    this.#space.take();
    this.#last = "call";
    this.#emit({ type: "call", index: this.#count, id: this.#newId(), name });
  }

  write(text: string): void {
    if (!this.#isKnown || text === "") return;
    this.#hasArguments = true;
    this.#emit({ type: "arguments", index: this.#count, text });
  }

  finish(): boolean {
    if (!this.#isKnown) return false;
    if (!this.#hasArguments) this.write("{}");
    this.#emit({ type: "callEnd", index: this.#count++ });
    return true;
  }

  /** The text is over. */
  end(): void {
    const space = this.#space.take();
    if (space !== "" && this.#last !== "call") this.#emit({ type: "content", text: space });
  }
}

/** Events of one push that carry on with the same text are one. */
export function joinEvents(last: ToolCallEvent, next: ToolCallEvent): ToolCallEvent | undefined {
  const continues =
    (last.type === "content" && next.type === "content") ||
    (last.type === "arguments" && next.type === "arguments" && last.index === next.index);
  return continues ? { ...last, text: last.text + next.text } : undefined;
}

function newCallId(): string {
  const bytes = crypto.getRandomValues(new Uint8Array(12));
  return `call_${Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("")}`;
}
