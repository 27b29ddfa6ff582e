/**
 * Tool calls of Qwen 2.5 and 3, and of Hermes, which began it:
 *
 *     <tool_call>
 *     {"name": "NAME", "arguments": {..}}
 *     </tool_call>
 *
 * @module
 */
import type { PieceReader, Reading } from "../piece_reader.ts";
import { readJsonCall } from "./json_call.ts";
import type { CallFormat } from "./tool_call_parser.ts";

const BEGIN = "<tool_call>";
const END = "</tool_call>";

export const QWEN25: CallFormat = {
  marks: [BEGIN, END],
  begins: /</,
  *read(reader, sink) {
    if (!(yield* reader.take(BEGIN))) return false;
    yield* reader.skipSpace();
    const options = { argumentNames: ["arguments"], readEnd, readsUnknown: true };
    const isCall = yield* readJsonCall(reader, sink, options);
    yield* reader.takeEnd(readEnd);
    return isCall;
  },
};

function* readEnd(reader: PieceReader): Reading<boolean> {
  yield* reader.skipSpace();
  return yield* reader.take(END);
}
