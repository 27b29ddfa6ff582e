/**
 * Tool calls of Mistral's models: `[TOOL_CALLS] [{"name": "NAME", "arguments": {..}}, ..]`, or of the
 * later ones `[TOOL_CALLS]NAME[ARGS]{..}` for each call.
 *
 * @module
 */
import type { PieceReader, Reading } from "../piece_reader.ts";
import { copyArguments } from "./json_arguments.ts";
import { readJsonCall } from "./json_call.ts";
import type { CallFormat, CallSink } from "./tool_call_parser.ts";

const BEGIN = "[TOOL_CALLS]";
const CALL_ID = "[CALL_ID]";
const ARGUMENTS = "[ARGS]";
const NAME = /[^\s[{]/;

const OPTIONS = { argumentNames: ["arguments"], readEnd, readsUnknown: true } as const;

export const MISTRAL: CallFormat = {
  marks: [BEGIN, CALL_ID, ARGUMENTS],
  begins: /\[/,
  *read(reader, sink) {
    if (!(yield* reader.take(BEGIN))) return false;
    const next = yield* reader.skipSpace();
    return next === "[" ? yield* readList(reader, sink) : yield* readNamed(reader, sink);
  },
};

function* readList(reader: PieceReader, sink: CallSink): Reading<boolean> {
  reader.skip();
  yield* reader.skipSpace();
  if (!(yield* readJsonCall(reader, sink, OPTIONS))) return false;
  for (;;) {
    const end = reader.position;
    if (!(yield* readComma(reader))) {
      reader.rewind(end);
      yield* reader.takeEnd(readListEnd);
      return true;
    }
    if (yield* readJsonCall(reader, sink, OPTIONS)) continue;
    // However much of it looked like a call: nothing is looked through twice.
    sink.content(reader.textSince(end));
    return true;
  }
}

function* readComma(reader: PieceReader): Reading<boolean> {
  yield* reader.skipSpace();
  if (!(yield* reader.take(","))) return false;
  yield* reader.skipSpace();
  return true;
}

function* readListEnd(reader: PieceReader): Reading<boolean> {
  yield* reader.skipSpace();
  return yield* reader.take("]");
}

function* readNamed(reader: PieceReader, sink: CallSink): Reading<boolean> {
  const name = yield* reader.takeWhile(NAME);
  if (yield* reader.take(CALL_ID)) yield* reader.takeWhile(NAME);
  if (!(yield* reader.take(ARGUMENTS)) && (yield* reader.peek()) !== "{") return false;
  sink.begin(name);
  yield* copyArguments(reader, (text) => sink.write(text), readEnd);
  return sink.finish();
}

/** Nothing stands behind a call; the mark of the next one ends arguments that are malformed. */
function* readEnd(reader: PieceReader): Reading<boolean> {
  yield* reader.skipSpace();
  return yield* reader.take(BEGIN);
}
