/**
 * Tool calls of Llama 3.1 to 3.3: `{"name": "NAME", "parameters": {..}}`, alone at the beginning of
 * the answer or behind `<|python_tag|>` anywhere; further ones follow a semicolon.
 *
 * An object that is no call is the answer itself: it is read no further than up to the first member
 * that a call does not have.
 *
 * @module
 */
import type { PieceReader, Reading } from "../piece_reader.ts";
import { readJsonCall } from "./json_call.ts";
import type { CallFormat } from "./tool_call_parser.ts";

const TAG = "<|python_tag|>";

const OPTIONS = {
  argumentNames: ["parameters", "arguments"],
  readEnd,
  readsUnknown: false,
} as const;

export const LLAMA3: CallFormat = {
  marks: [TAG],
  begins: /[<{]/,
  *read(reader, sink) {
    const isTagged = yield* reader.take(TAG);
    if (!isTagged && !sink.isFirst) return false;
    yield* reader.skipSpace();
    if (!(yield* readJsonCall(reader, sink, OPTIONS))) return false;
    for (;;) {
      const end = reader.position;
      if (!(yield* readSeparator(reader))) {
        reader.rewind(end);
        return true;
      }
      if (yield* readJsonCall(reader, sink, OPTIONS)) continue;
      // However much of it looked like a call: nothing is looked through twice.
      sink.content(reader.textSince(end));
      return true;
    }
  },
};

function* readSeparator(reader: PieceReader): Reading<boolean> {
  yield* reader.skipSpace();
  if (!(yield* reader.take(";"))) return false;
  yield* reader.skipSpace();
  return true;
}

/** Nothing stands behind a call; the tag of the next one ends arguments that are malformed. */
function* readEnd(reader: PieceReader): Reading<boolean> {
  yield* reader.skipSpace();
  return yield* reader.take(TAG);
}
