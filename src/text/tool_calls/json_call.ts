/**
 * A tool call as one JSON object, `{"name": .., "arguments": {..}}`.
 *
 * @module
 */
import type { PieceReader, Reading } from "../piece_reader.ts";
import { copyValue, type ReadEnd, readString } from "./json_arguments.ts";
import type { CallSink } from "./tool_call_parser.ts";

/** Members that models write beside the name and the arguments. */
const OTHER_MEMBERS = new Set(["type", "id"]);

export interface JsonCallOptions {
  /** Names of the member with the arguments. */
  readonly argumentNames: readonly string[];
  /** Reads the mark behind the object, at which malformed arguments end. */
  readonly readEnd: ReadEnd;
  /** Whether an object with the name of no tool is read to its end. */
  readonly readsUnknown: boolean;
}

/**
 * Reads the object, whose members may stand in any order. Arguments before the name have to wait for
 * it; an object without any is a call with none.
 *
 * @returns False where it is no call of a tool.
 */
export function* readJsonCall(
  reader: PieceReader,
  sink: CallSink,
  { argumentNames, readEnd, readsUnknown }: JsonCallOptions,
): Reading<boolean> {
  let name: string | undefined;
  let early = "";
  let hasBegun = false;
  if (!(yield* reader.take("{"))) return false;
  for (let isFirst = true; ; isFirst = false) {
    const next = yield* reader.skipSpace();
    if (next === "}") {
      reader.skip();
      break;
    }
    const member = yield* readMemberName(reader, isFirst);
    if (member === undefined) {
      if (hasBegun) break; // the call stands, and what follows is content
      return false;
    }
    if (hasBegun) {
      yield* copyValue(reader, () => {}, readEnd);
    } else if (member === "name" && name === undefined) {
      name = yield* readString(reader);
      if (name === undefined || !(readsUnknown || sink.knows(name))) return false;
    } else if (argumentNames.includes(member) && name !== undefined) {
      hasBegun = true;
      sink.begin(name);
      yield* copyValue(reader, (text) => sink.write(text), readEnd);
    } else if (argumentNames.includes(member)) {
      const start = reader.position;
      yield* copyValue(reader, () => {}, readEnd);
      early = reader.textSince(start);
    } else if (OTHER_MEMBERS.has(member)) {
      yield* copyValue(reader, () => {}, readEnd);
    } else {
      return false;
    }
  }
  if (name === undefined) return false;
  if (!hasBegun) {
    sink.begin(name);
    sink.write(early);
  }
  return sink.finish();
}

/** From the comma before a member to its value. */
function* readMemberName(reader: PieceReader, isFirst: boolean): Reading<string | undefined> {
  if (!isFirst) {
    if (!(yield* reader.take(","))) return undefined;
    yield* reader.skipSpace();
  }
  const name = yield* readString(reader);
  if (name === undefined) return undefined;
  yield* reader.skipSpace();
  if (!(yield* reader.take(":"))) return undefined;
  yield* reader.skipSpace();
  return name;
}
