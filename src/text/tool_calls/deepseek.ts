/**
 * Tool calls of DeepSeek's models.
 *
 * V3 and R1:
 *
 *     <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function<｜tool▁sep｜>NAME
 *     ```json
 *     {..}
 *     ```<｜tool▁call▁end｜>
 *     <｜tool▁call▁begin｜>..<｜tool▁call▁end｜><｜tool▁calls▁end｜>
 *
 * V3.1 leaves out the word and the fence: `<｜tool▁call▁begin｜>NAME<｜tool▁sep｜>{..}<｜tool▁call▁end｜>`.
 *
 * @module
 */
import type { PieceReader, Reading } from "../piece_reader.ts";
import { copyArguments } from "./json_arguments.ts";
import type { CallFormat } from "./tool_call_parser.ts";

const CALLS_BEGIN = "<｜tool▁calls▁begin｜>";
const CALLS_END = "<｜tool▁calls▁end｜>";
const CALL_BEGIN = "<｜tool▁call▁begin｜>";
const CALL_END = "<｜tool▁call▁end｜>";
const SEPARATOR = "<｜tool▁sep｜>";
const FENCE = "```";
const NAME = /[^\s<`{]/;

const MARKS = [CALLS_BEGIN, CALLS_END, CALL_BEGIN, CALL_END, SEPARATOR];

export const DEEPSEEK_V3 = deepseekFormat(function* (reader) {
  yield* reader.takeWhile(NAME);
  if (!(yield* reader.take(SEPARATOR))) return undefined;
  const name = yield* reader.takeWhile(NAME);
  const next = yield* reader.skipSpace();
  if (next === "{") return name;
  if (!(yield* reader.take(FENCE))) return undefined;
  yield* reader.take("json");
  return name;
});

export const DEEPSEEK_V31 = deepseekFormat(function* (reader) {
  const name = yield* reader.takeWhile(NAME);
  return (yield* reader.take(SEPARATOR)) ? name : undefined;
});

/** @param readName Reads from the mark that begins a call to its arguments. */
function deepseekFormat(
  readName: (reader: PieceReader) => Reading<string | undefined>,
): CallFormat {
  return {
    marks: MARKS,
    begins: /</,
    *read(reader, sink) {
      if (yield* reader.take(CALLS_BEGIN)) yield* reader.skipSpace();
      if (!(yield* reader.take(CALL_BEGIN))) return false;
      const name = yield* readName(reader);
      if (name === undefined) return false;
      sink.begin(name);
      yield* copyArguments(reader, (text) => sink.write(text), readCallEnd);
      const isCall = sink.finish();
      yield* reader.takeEnd(readCallEnd);
      yield* reader.takeEnd(readCallsEnd);
      return isCall;
    },
  };
}

function* readCallEnd(reader: PieceReader): Reading<boolean> {
  yield* reader.skipSpace();
  if (yield* reader.take(FENCE)) yield* reader.skipSpace();
  return yield* reader.take(CALL_END);
}

function* readCallsEnd(reader: PieceReader): Reading<boolean> {
  yield* reader.skipSpace();
  return yield* reader.take(CALLS_END);
}
