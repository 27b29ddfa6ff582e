/**
 * A model's answer as it grows -> what it thought between `<think>` and `</think>`, and what it says.
 *
 * Thinking stands in front or nowhere: a tag further behind is a word like any other. White space
 * around the tags and at the end belongs to neither part, but for that in front of `</think>`.
 *
 * @module
 */
import { type PieceReader, type Reading, Transducer } from "../piece_reader.ts";
import { TrailingSpace } from "../trailing_space.ts";

export interface ThinkingEvent {
  readonly type: "reasoning" | "content";
  readonly text: string;
}

export interface ThinkTagOptions {
  /** Whether the prompt has opened the thinking, so that no tag need come. */
  readonly isOpen: boolean;
  /** Leaves the tags and all white space in the reasoning. Default false. */
  readonly keepTags?: boolean | undefined;
}

export const THINK_BEGIN = "<think>";
export const THINK_END = "</think>";

/** Parses one answer. */
export class ThinkTagParser {
  readonly #transducer: Transducer<ThinkingEvent>;
  #isThinking: boolean;

  constructor({ isOpen, keepTags = false }: ThinkTagOptions) {
    this.#isThinking = isOpen;
    const setThinking = (isThinking: boolean) => {
      this.#isThinking = isThinking;
    };
    this.#transducer = new Transducer(
      (reader, emit) =>
        parse(reader, {
          isOpen,
          keepTags,
          setThinking,
          write: (type, text) => text && emit({ type, text }),
        }),
      (last, next) =>
        last.type === next.type ? { ...last, text: last.text + next.text } : undefined,
    );
  }

  /** Whether the text so far ends within the thinking. */
  get isThinking(): boolean {
    return this.#isThinking;
  }

  push(text: string): ThinkingEvent[] {
    return this.#transducer.push(text);
  }

  /** The answer is over: what was held back is told. */
  end(): ThinkingEvent[] {
    return this.#transducer.end();
  }
}

interface ParseOptions {
  readonly isOpen: boolean;
  readonly keepTags: boolean;
  /** Called where the thinking begins and where it ends. */
  readonly setThinking: (isThinking: boolean) => void;
  readonly write: (type: ThinkingEvent["type"], text: string) => void;
}

function* parse(reader: PieceReader, options: ParseOptions): Reading<void> {
  const { isOpen, keepTags, setThinking, write } = options;
  yield* reader.skipSpace();
  const hasTag = yield* reader.looksAt(readBegin);
  if (!hasTag && !isOpen) {
    reader.rewind(0);
    yield* copyAll(reader, (text) => write("content", text));
    return;
  }
  if (hasTag) yield* reader.take(THINK_BEGIN);
  setThinking(true);
  if (keepTags) {
    reader.rewind(0);
    yield* copyTagged(reader, (text) => write("reasoning", text));
    setThinking(false);
    yield* copyAll(reader, (text) => write("content", text));
    return;
  }
  yield* reader.skipSpace();
  yield* copyThinking(reader, (text) => write("reasoning", text));
  setThinking(false);
  yield* reader.skipSpace();
  yield* copyTrimmed(reader, (text) => write("content", text));
}

function* readBegin(reader: PieceReader): Reading<boolean> {
  return yield* reader.take(THINK_BEGIN);
}

function* readEnd(reader: PieceReader): Reading<boolean> {
  return yield* reader.take(THINK_END);
}

type Write = (text: string) => void;

/** Copies the thinking and takes the tag behind it. */
function* copyThinking(reader: PieceReader, write: Write): Reading<void> {
  const space = new TrailingSpace();
  for (;;) {
    write(space.push(reader.takeUntil(/</)));
    reader.forget();
    const character = yield* reader.peek();
    if (character === undefined) return;
    if (character !== "<") continue;
    if (yield* reader.looksAt(readEnd)) {
      yield* reader.take(THINK_END);
      write(space.take());
      return;
    }
    reader.skip();
    write(space.push("<"));
  }
}

/** Copies the thinking with the tags around it. */
function* copyTagged(reader: PieceReader, write: Write): Reading<void> {
  for (;;) {
    write(reader.takeUntil(/</));
    reader.forget();
    const character = yield* reader.peek();
    if (character === undefined) return;
    if (character !== "<") continue;
    const isEnd = yield* reader.looksAt(readEnd);
    if (isEnd) yield* reader.take(THINK_END);
    else reader.skip();
    write(isEnd ? THINK_END : "<");
    if (isEnd) return;
  }
}

function* copyAll(reader: PieceReader, write: Write): Reading<void> {
  do {
    write(reader.takeAll());
    reader.forget();
  } while ((yield* reader.peek()) !== undefined);
}

/** Copies all but the white space at the end. */
function* copyTrimmed(reader: PieceReader, write: Write): Reading<void> {
  const space = new TrailingSpace();
  do {
    write(space.push(reader.takeAll()));
    reader.forget();
  } while ((yield* reader.peek()) !== undefined);
}
