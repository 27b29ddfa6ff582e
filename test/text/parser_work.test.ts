import fc from "fast-check";
import { describe, expect, test, vi } from "vitest";
import { createMessageParser, type MessageParserOptions } from "../../src/text/message_parser.ts";
import { PieceReader } from "../../src/text/piece_reader.ts";
import { REASONING_PARSERS } from "../../src/text/reasoning/formats.ts";
import { CALL_FORMATS, TOOL_CALL_PARSERS } from "../../src/text/tool_calls/formats.ts";

/** Looks at a character of the text, at most: marks that begin alike are tried one after another. */
const LOOKS = 48;
const LENGTH = 4000;

/** The text in pieces of a size: what its parser told, and how many characters it looked at. */
function read(options: MessageParserOptions, text: string, size: number) {
  const readers = new Set<PieceReader>();
  const add = vi.spyOn(PieceReader.prototype, "add");
  try {
    const parser = createMessageParser({ ...options, newId: () => "id" });
    for (let from = 0; from < text.length; from += size) {
      parser.push(text.slice(from, from + size));
      for (const reader of add.mock.contexts) readers.add(reader as PieceReader);
      add.mockClear();
    }
    parser.end();
  } finally {
    add.mockRestore();
  }
  return [...readers].reduce((sum, reader) => sum + reader.examined, 0);
}

const FORMS: readonly (readonly [string, MessageParserOptions, readonly string[]])[] = [
  ...TOOL_CALL_PARSERS.map((toolCalls) => {
    const own = toolCalls === "gpt-oss" ? [] : CALL_FORMATS[toolCalls].marks;
    return [toolCalls, { toolCalls, tools: ["f"] }, own] as const;
  }),
  ...REASONING_PARSERS.map((reasoning) => [reasoning, { reasoning }, []] as const),
];

const PIECES = [
  ..."[]{}()<>\"'`\\,;:= \n|f1.",
  '{"name":"f","arguments":{}}',
  '{"name":"f","parameters":{}}',
  '{"name":"f",',
  '{"id":["',
  '"arguments":',
  ",f(a=",
  "[f(a=1)",
  "[{",
  " ".repeat(50),
  "<think>",
  "</think>",
  "<|channel|>analysis<|message|>",
  "<|start|>assistant to=functions.f<|channel|>commentary<|message|>{",
  "<|end|>",
];

describe.each(FORMS)("%s", (_, options, marks) => {
  test("a text is looked through a few times, however it is repeated and cut", () => {
    const piece = fc.constantFrom(...PIECES, ...marks);
    const text = fc
      .tuple(fc.array(piece, { maxLength: 4 }), fc.array(piece, { minLength: 1, maxLength: 5 }))
      .map(([before, again]) => {
        const repeated = again.join("");
        return before.join("") + repeated.repeat(Math.ceil(LENGTH / repeated.length));
      });
    fc.assert(
      fc.property(text, fc.constantFrom(1, 7, LENGTH * 2), (all, size) => {
        expect(read(options, all, size)).toBeLessThanOrEqual(LOOKS * all.length);
      }),
      { numRuns: 20, seed: 1 },
    );
  });
});

/** A call, and behind it the beginning of one that never is, with what may begin calls in it. */
test.each([
  ["llama3", '{"name":"f","parameters":{}};{"id":["', "<{"],
  ["mistral", '[TOOL_CALLS][{"name":"f","arguments":{}},{"id":["', "["],
  ["qwen25", '<tool_call>{"arguments":["', "<"],
] as const)(
  "%s: what was held back is not looked through again and again",
  (toolCalls, begun, again) => {
    const text = begun + again.repeat(20_000 / again.length);
    const examined = read({ toolCalls, tools: ["f"] }, text, 1);
    expect(examined).toBeLessThanOrEqual(8 * text.length);
  },
);

describe("literals of Python", () => {
  const nested = (depth: number) => `[f(a=${"[".repeat(depth)}1${"]".repeat(depth)})]`;
  const argumentsOf = (text: string) => {
    const parser = createMessageParser({ toolCalls: "pythonic", tools: ["f"] });
    const events = [...parser.push(text), ...parser.end()];
    return events.map((event) => (event.type === "arguments" ? event.text : "")).join("");
  };

  test("64 lists inside of each other are read", () => {
    expect(JSON.parse(argumentsOf(nested(64)))).toHaveProperty("a");
  });

  test.each([65, 640, 100_000])("of %i the text goes out as it is", (depth) => {
    const text = argumentsOf(nested(depth));
    expect(text).toBe(`{"a": ${"[".repeat(depth)}1${"]".repeat(depth)}`);
  });

  test("a number of more digits than are worth a conversion is none", () => {
    const digits = "f".repeat(200_000);
    expect(argumentsOf(`[f(a=0x${digits})]`)).toBe(`{"a": 0x${digits}`);
    expect(argumentsOf("[f(a=0xff)]")).toBe('{"a": 255}');
  });
});
