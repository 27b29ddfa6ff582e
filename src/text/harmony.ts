/**
 * Answers of gpt-oss, which are messages on channels:
 *
 *     <|channel|>analysis<|message|>thinking<|end|>
 *     <|start|>assistant<|channel|>commentary to=functions.NAME <|constrain|>json<|message|>{..}<|call|>
 *     <|start|>assistant<|channel|>final<|message|>text<|return|>
 *
 * Analysis is reasoning, messages to a function are calls, and the text of all others is content. The
 * next message on from a text of the same sort begins a line. What is no message, and messages to
 * a recipient that is not known, are content as they stand.
 *
 * @module
 */
import type { Thinking } from "../constraint.ts";
import { type PieceReader, type Reading, Transducer } from "./piece_reader.ts";
import { copyArguments } from "./tool_calls/json_arguments.ts";
import {
  CallEvents,
  joinEvents,
  type ToolCallEvent,
  type ToolCallOptions,
} from "./tool_calls/tool_call_parser.ts";

const START = "<|start|>";
const CHANNEL = "<|channel|>";
const CONSTRAIN = "<|constrain|>";
const MESSAGE = "<|message|>";
const ENDS = ["<|end|>", "<|call|>", "<|return|>"];
const FUNCTIONS = "functions.";

/** Special tokens that the text has to show. */
export const HARMONY_MARKS = [START, CHANNEL, CONSTRAIN, MESSAGE, ...ENDS];

/** Analysis in front of a message to a function. */
export const HARMONY_THINKING: Thinking = {
  begin: `${CHANNEL}analysis${MESSAGE}`,
  end: `${ENDS[0]}${START}assistant`,
  isOpen: false,
};

export type HarmonyEvent = ToolCallEvent | { readonly type: "reasoning"; readonly text: string };

export interface HarmonyOptions extends ToolCallOptions {
  /** Whether analysis is told as reasoning; else it is content, as it stands. */
  readonly separatesReasoning: boolean;
}

/** Parses one answer. */
export class HarmonyParser {
  readonly #transducer: Transducer<HarmonyEvent>;
  #isReasoning = false;

  constructor(options: HarmonyOptions) {
    const setReasoning = (isReasoning: boolean) => {
      this.#isReasoning = isReasoning;
    };
    this.#transducer = new Transducer(
      (reader, emit) => parse(reader, { ...options, setReasoning }, emit),
      joinHarmony,
    );
  }

  /** Whether the text so far ends within an analysis. */
  get isReasoning(): boolean {
    return this.#isReasoning;
  }

  push(text: string): HarmonyEvent[] {
    return this.#transducer.push(text);
  }

  /** The answer is over: what was held back is told. */
  end(): HarmonyEvent[] {
    return this.#transducer.end();
  }
}

function joinHarmony(last: HarmonyEvent, next: HarmonyEvent): HarmonyEvent | undefined {
  if (last.type === "reasoning" && next.type === "reasoning") {
    return { ...last, text: last.text + next.text };
  }
  return last.type === "reasoning" || next.type === "reasoning"
    ? undefined
    : joinEvents(last, next);
}

interface Header {
  readonly channel: string;
  /** Absent for a message to the user. */
  readonly recipient: string | undefined;
}

interface ParseOptions extends HarmonyOptions {
  /** Called where an analysis begins and where it ends. */
  readonly setReasoning: (isReasoning: boolean) => void;
}

function* parse(
  reader: PieceReader,
  options: ParseOptions,
  emit: (event: HarmonyEvent) => void,
): Reading<void> {
  const calls = new CallEvents(options, emit);
  const content = apart((text) => calls.content(text));
  const reasoning = apart((text) => emit({ type: "reasoning", text }));
  for (let isFirst = true; (yield* reader.peek()) !== undefined; isFirst = false) {
    reader.forget();
    const start = reader.position;
    const header = yield* readHeader(reader, isFirst);
    options.setReasoning(header?.channel === "analysis" && header.recipient === undefined);
    const name = header?.recipient?.startsWith(FUNCTIONS)
      ? header.recipient.slice(FUNCTIONS.length)
      : undefined;
    if (header === undefined) {
      if (yield* takeStrayEnd(reader, start)) continue;
      if (reader.position === start) reader.skip();
      calls.content(reader.textSince(start) + reader.takeUntil(/</));
    } else if (name !== undefined && calls.knows(name)) {
      calls.begin(name);
      yield* copyArguments(reader, (text) => calls.write(text), looksAtEnd);
      calls.finish();
      yield* reader.takeEnd(readEnd);
    } else if (header.recipient === undefined && header.channel !== "analysis") {
      yield* copyText(reader, content());
    } else if (header.recipient === undefined && options.separatesReasoning) {
      yield* copyText(reader, reasoning());
    } else {
      calls.content(reader.textSince(start));
      yield* copyText(
        reader,
        (text) => calls.content(text),
        (mark) => calls.content(mark),
      );
    }
    options.setReasoning(false);
  }
  calls.end();
}

/** Takes the end of a message that never began; else the place stays as it is. */
function* takeStrayEnd(reader: PieceReader, start: number): Reading<boolean> {
  const { position } = reader;
  reader.rewind(start);
  const mark = yield* readMark(reader);
  if (mark !== undefined && ENDS.includes(mark)) return true;
  reader.rewind(position);
  return false;
}

type Write = (text: string) => void;

/** Gives each message a way to write that sets it apart from the one before. */
function apart(write: Write): () => Write {
  let isBegun = false;
  return () => {
    let isAtStart = true;
    return (text) => {
      if (text === "") return;
      write(isAtStart && isBegun ? `\n${text}` : text);
      isAtStart = false;
      isBegun = true;
    };
  };
}

/**
 * Reads from the beginning of a message to its text.
 *
 * @param isFirst The prompt has begun the first message: only later ones need `<|start|>`.
 */
function* readHeader(reader: PieceReader, isFirst: boolean): Reading<Header | undefined> {
  if (yield* reader.take(START)) yield* reader.takeWhile(/[a-z]/);
  else if (!isFirst && (yield* reader.peek()) !== "<") return undefined;
  let recipient = yield* readRecipient(reader);
  let channel = "";
  if (yield* reader.take(CHANNEL)) {
    channel = yield* reader.takeWhile(/[a-z]/);
    recipient = (yield* readRecipient(reader)) ?? recipient;
    yield* reader.skipSpace();
    yield* reader.take(CONSTRAIN);
    yield* reader.takeWhile(/[\w-]/);
  }
  return (yield* reader.take(MESSAGE)) ? { channel, recipient } : undefined;
}

/** ` to=NAME`. */
function* readRecipient(reader: PieceReader): Reading<string | undefined> {
  const start = reader.position;
  yield* reader.skipSpace();
  if (yield* reader.take("to=")) return yield* reader.takeWhile(/[^\s<]/);
  reader.rewind(start);
  return undefined;
}

/** Copies a message's text, and takes the mark behind it unless that begins the next message. */
function* copyText(reader: PieceReader, write: Write, writeMark: Write = () => {}): Reading<void> {
  for (;;) {
    write(reader.takeUntil(/</));
    const character = yield* reader.peek();
    if (character === undefined) return;
    if (character !== "<") continue;
    const mark = yield* readMark(reader);
    if (mark === undefined) {
      reader.skip();
      write(character);
      continue;
    }
    if (ENDS.includes(mark)) writeMark(mark);
    else reader.rewind(reader.position - mark.length);
    return;
  }
}

/** Takes a mark that ends a message, be it the beginning of the next one. */
function* readMark(reader: PieceReader): Reading<string | undefined> {
  const start = reader.position;
  for (const mark of [...ENDS, START, CHANNEL]) {
    if (yield* reader.take(mark)) return mark;
    reader.rewind(start);
  }
  return undefined;
}

function* readEnd(reader: PieceReader): Reading<boolean> {
  yield* reader.skipSpace();
  for (const mark of ENDS) if (yield* reader.take(mark)) return true;
  return false;
}

function* looksAtEnd(reader: PieceReader): Reading<boolean> {
  yield* reader.skipSpace();
  return (yield* readMark(reader)) !== undefined;
}
