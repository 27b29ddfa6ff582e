/**
 * Tool calls as a list in Python, `[f(a=1), g(b="x")]`, of Llama 4 (between `<|python_start|>` and
 * `<|python_end|>`) and others. The arguments become JSON text as they come.
 *
 * @module
 */
import type { PieceReader, Reading } from "../piece_reader.ts";
import { convertLiteral } from "./python_literal.ts";
import type { CallFormat, CallSink } from "./tool_call_parser.ts";

const BEGIN = "<|python_start|>";
const END = "<|python_end|>";
const NAME = /[\w.-]/;
const PARAMETER = /\w/;

export const PYTHONIC: CallFormat = {
  marks: [BEGIN, END],
  begins: /[<[]/,
  *read(reader, sink) {
    if (yield* reader.take(BEGIN)) yield* reader.skipSpace();
    if (!(yield* reader.take("[")) || !(yield* readCall(reader, sink))) return false;
    for (;;) {
      const end = reader.position;
      if (yield* readNextCall(reader, sink)) continue;
      reader.rewind(end);
      yield* reader.takeEnd(readListEnd);
      yield* reader.takeEnd(readEnd);
      return true;
    }
  },
};

/** @returns False, with what it has read, where there is no call of a tool by parameters' names. */
function* readCall(reader: PieceReader, sink: CallSink): Reading<boolean> {
  yield* reader.skipSpace();
  const name = yield* reader.takeWhile(NAME);
  if (!sink.knows(name)) return false;
  yield* reader.skipSpace();
  if (!(yield* reader.take("("))) return false;
  if (!(yield* reader.looksAt(readFirstParameter))) return false;
  sink.begin(name);
  sink.write("{");
  if (yield* convertArguments(reader, sink)) sink.write("}");
  sink.finish();
  return true;
}

function* readNextCall(reader: PieceReader, sink: CallSink): Reading<boolean> {
  yield* reader.skipSpace();
  return (yield* reader.take(",")) && (yield* readCall(reader, sink));
}

function* readFirstParameter(reader: PieceReader): Reading<boolean> {
  return (yield* reader.skipSpace()) === ")" || (yield* readParameter(reader)) !== undefined;
}

/** From the name of a parameter to its value. */
function* readParameter(reader: PieceReader): Reading<string | undefined> {
  const name = yield* reader.takeWhile(PARAMETER);
  yield* reader.skipSpace();
  if (name === "" || !(yield* reader.take("="))) return undefined;
  return (yield* reader.skipSpace()) === "=" ? undefined : name;
}

/**
 * Converts up to the bracket that ends the call. From what is no literal on, the text goes out as it
 * is: the call has begun, and nothing of it is lost.
 *
 * @returns Whether all of it was JSON.
 */
function* convertArguments(reader: PieceReader, sink: CallSink): Reading<boolean> {
  for (let count = 0; ; count++) {
    let next = yield* reader.skipSpace();
    if (next === "," && count > 0) {
      reader.skip();
      next = yield* reader.skipSpace();
    }
    if (next === ")") {
      reader.skip();
      return true;
    }
    const start = reader.position;
    const name = yield* readParameter(reader);
    if (name === undefined) {
      reader.rewind(start);
      break;
    }
    sink.write(`${count === 0 ? "" : ", "}${JSON.stringify(name)}: `);
    if (!(yield* convertLiteral(reader, (text) => sink.write(text)))) break;
  }
  yield* copyToBracket(reader, sink);
  return false;
}

/** Copies text up to the bracket that ends the call, which is taken. */
function* copyToBracket(reader: PieceReader, sink: CallSink): Reading<void> {
  let depth = 0;
  let quote = "";
  for (;;) {
    const character = yield* reader.peek();
    if (character === undefined) return;
    reader.skip();
    if (quote !== "") {
      if (character === quote) quote = "";
    } else if (character === '"' || character === "'") {
      quote = character;
    } else if (character === "(") {
      depth++;
    } else if (character === ")" && depth-- === 0) {
      return;
    }
    sink.write(character);
  }
}

function* readListEnd(reader: PieceReader): Reading<boolean> {
  yield* reader.skipSpace();
  if (yield* reader.take(",")) yield* reader.skipSpace();
  return yield* reader.take("]");
}

function* readEnd(reader: PieceReader): Reading<boolean> {
  yield* reader.skipSpace();
  return yield* reader.take(END);
}
