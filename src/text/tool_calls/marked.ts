/**
 * Tool calls between marks that stand for nothing else: those of DeepSeek's models and of Kimi K2.
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
 * Kimi numbers the calls: `<|tool_call_begin|>functions.NAME:0<|tool_call_argument_begin|>{..}<|tool_call_end|>`.
 *
 * @module
 */
import type { PieceReader, Reading } from "../piece_reader.ts";
import { copyArguments } from "./json_arguments.ts";
import type { CallFormat } from "./tool_call_parser.ts";

interface Marks {
  readonly callsBegin: string;
  readonly callBegin: string;
  /** Between name and arguments, or before the name. */
  readonly separator: string;
  readonly callEnd: string;
  readonly callsEnd: string;
}

const DEEPSEEK: Marks = {
  callsBegin: "<｜tool▁calls▁begin｜>",
  callBegin: "<｜tool▁call▁begin｜>",
  separator: "<｜tool▁sep｜>",
  callEnd: "<｜tool▁call▁end｜>",
  callsEnd: "<｜tool▁calls▁end｜>",
};
const KIMI: Marks = {
  callsBegin: "<|tool_calls_section_begin|>",
  callBegin: "<|tool_call_begin|>",
  separator: "<|tool_call_argument_begin|>",
  callEnd: "<|tool_call_end|>",
  callsEnd: "<|tool_calls_section_end|>",
};
const FENCE = "```";
const NAME = /[^\s<`{]/;

export const DEEPSEEK_V3 = markedFormat(DEEPSEEK, function* (reader) {
  yield* reader.takeWhile(NAME);
  if (!(yield* reader.take(DEEPSEEK.separator))) return undefined;
  const name = yield* reader.takeWhile(NAME);
  const next = yield* reader.skipSpace();
  if (next === "{") return name;
  if (!(yield* reader.take(FENCE))) return undefined;
  yield* reader.take("json");
  return name;
});

export const DEEPSEEK_V31 = markedFormat(DEEPSEEK, function* (reader) {
  const name = yield* reader.takeWhile(NAME);
  return (yield* reader.take(DEEPSEEK.separator)) ? name : undefined;
});

export const KIMI_K2 = markedFormat(KIMI, function* (reader) {
  yield* reader.skipSpace();
  const id = yield* reader.takeWhile(NAME);
  yield* reader.skipSpace();
  if (!(yield* reader.take(KIMI.separator))) return undefined;
  return /^functions\.(.+):\d+$/.exec(id)?.[1];
});

/** @param readName Reads from the mark that begins a call to its arguments. */
function markedFormat(
  { callsBegin, callBegin, separator, callEnd, callsEnd }: Marks,
  readName: (reader: PieceReader) => Reading<string | undefined>,
): CallFormat {
  function* readCallEnd(reader: PieceReader): Reading<boolean> {
    yield* reader.skipSpace();
    if (yield* reader.take(FENCE)) yield* reader.skipSpace();
    return yield* reader.take(callEnd);
  }

  function* readCallsEnd(reader: PieceReader): Reading<boolean> {
    yield* reader.skipSpace();
    return yield* reader.take(callsEnd);
  }

  return {
    marks: [callsBegin, callBegin, separator, callEnd, callsEnd],
    begins: /</,
    *read(reader, sink) {
      if (yield* reader.take(callsBegin)) yield* reader.skipSpace();
      if (!(yield* reader.take(callBegin))) return false;
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
