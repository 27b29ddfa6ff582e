/** What holds for every form of tool calls. */
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { createMessageParser, marksOf } from "../../../src/text/message_parser.ts";
import { TOOL_CALL_PARSERS } from "../../../src/text/tool_calls/formats.ts";
import { collect, parseAllCuts, parsePieces, progress, randomPieces } from "../cuts.ts";
import { type Call, writeCalls } from "./written_calls.ts";

/** Tens of random texts for each property; more in the long campaign. */
const RUNS = process.env.WISP_TEST_FULL === "1" ? 300 : 10;

const TOOLS = ["get_weather", "add"];
const CITY = "New York";
const WEATHER: Call = { name: "get_weather", args: { city: CITY, unit: "celsius" } };
const ADD: Call = { name: "add", args: { a: 1, b: [2.5, -3], note: 'a "b" \\ \n ü 🦊' } };
const NOW: Call = { name: "get_weather", args: {} };
const UNKNOWN: Call = { name: "launch", args: { at: "now" } };

describe.each(TOOL_CALL_PARSERS)("%s", (format) => {
  const create = () => createMessageParser({ toolCalls: format, tools: TOOLS });
  const parse = (text: string) => parseAllCuts(create, text);
  const expected = (...calls: readonly Call[]) => ({
    content: "",
    reasoning: "",
    calls: calls.map(({ name, args }) => ({ name, args: JSON.parse(JSON.stringify(args)) })),
  });
  const withArguments = ({ calls, ...rest }: ReturnType<typeof parse>) => ({
    ...rest,
    calls: calls.map((call) => ({ name: call.name, args: JSON.parse(call.arguments) })),
  });

  test.each([
    ["one call", [WEATHER]],
    ["two", [WEATHER, ADD]],
    ["three", [ADD, NOW, WEATHER]],
    ["one without arguments", [NOW]],
  ])("reads %s, wherever the text is cut", (_, calls) => {
    expect(withArguments(parse(writeCalls(format, calls)))).toEqual(expected(...calls));
  });

  test.each(["Hello", "a < b && [c] {d} <tool> ```json\n", " \n x \n", "<", "", "[1, 2]", "{}"])(
    "keeps %j, which is no call, as it is",
    (text) => {
      expect(parse(text)).toEqual({ content: text, reasoning: "", calls: [] });
    },
  );

  test("tells the name once the header is complete, and the arguments as they come", () => {
    const text = writeCalls(format, [WEATHER]);
    const steps = progress(create, text);
    const value = text.indexOf(CITY);
    const early = steps.slice(0, value).flat();
    expect(early.filter(({ type }) => type === "call")).toMatchObject([{ name: "get_weather" }]);
    for (let length = 1; length <= CITY.length; length++) {
      const told = steps.slice(0, value + length).flat();
      const args = told.map((event) => (event.type === "arguments" ? event.text : "")).join("");
      expect(args.endsWith(CITY.slice(0, length))).toBe(true);
    }
  });

  test("each call has an id of its own", () => {
    const parser = create();
    const events = [...parser.push(writeCalls(format, [ADD, NOW])), ...parser.end()];
    const ids = events.flatMap((event) => (event.type === "call" ? [event.id] : []));
    for (const id of ids) expect(id).toMatch(/^call_[0-9a-f]{24}$/);
    expect(new Set(ids).size).toBe(2);
  });

  test("a call of an unknown tool is content as it stands", () => {
    const text = writeCalls(format, [UNKNOWN]);
    expect(parse(text)).toEqual({ content: text, reasoning: "", calls: [] });
  });

  test("an unknown tool between two known ones leaves them as they are", () => {
    const { content, calls } = parse(writeCalls(format, [ADD, UNKNOWN, WEATHER]));
    expect(calls[0]!.name).toBe("add");
    for (const part of ["launch", "at", "now"]) expect(content).toContain(part);
  });

  test("a call that the limit cuts off keeps what there is of it", () => {
    const text = writeCalls(format, [WEATHER]);
    const { calls, content } = parse(text.slice(0, text.indexOf(CITY) + 5));
    expect(content).toBe("");
    expect(calls).toEqual([{ name: "get_weather", arguments: expect.stringMatching(/"New Y$/) }]);
  });

  test("a mark that the end of the text cuts off is not shown", () => {
    const text = writeCalls(format, [WEATHER]);
    const end = text.indexOf('"celsius"') + '"celsius"'.length + 1;
    for (let cut = end; cut <= text.length; cut++) {
      const { calls, content } = parsePieces(create, [text.slice(0, cut)]);
      expect(content, text.slice(0, cut)).toBe("");
      expect(JSON.parse(calls[0]!.arguments)).toEqual(WEATHER.args);
    }
  });

  test("any arguments survive, the form's own marks included", () => {
    const marks = [
      writeCalls(format, [ADD]),
      ...marksOf({ toolCalls: format, tools: TOOLS }),
      "```",
    ];
    const word = fc.oneof(fc.string({ maxLength: 6 }), fc.constantFrom(...marks));
    const { any } = fc.letrec((tie) => ({
      any: fc.oneof(
        { maxDepth: 2 },
        word,
        fc.integer(),
        fc.boolean(),
        fc.constant(null),
        fc.array(tie("any"), { maxLength: 3 }),
        fc.dictionary(word, tie("any"), { maxKeys: 3 }),
      ),
    }));
    const args = fc.dictionary(fc.stringMatching(/^[a-z_][a-z0-9_]{0,6}$/), any, { maxKeys: 3 });
    const property = fc.property(args, args, fc.nat(), (first, second, seed) => {
      const calls = [
        { name: "add", args: first },
        { name: "get_weather", args: second },
      ];
      const pieces = randomPieces(writeCalls(format, calls), seed);
      expect(withArguments(parsePieces(create, pieces))).toEqual(expected(...calls));
    });
    fc.assert(property, { numRuns: 15 * RUNS, seed: 7 });
  });

  test("of random marks and words nothing is lost, wherever they are cut", () => {
    const words = ["get_weather", "add", "launch", "function", "```json", "a=", "to=functions.add"];
    const signs = ["(", ")", "{", "}", "[", "]", '"', ":", ",", ";", "\n", " ", "1", "<"];
    const members = ['{"name": "', '"add"', '"arguments": ', '"parameters": {', "commentary"];
    const marks = marksOf({ toolCalls: format, tools: TOOLS });
    const piece = fc.oneof(...[words, signs, members, marks].map((of) => fc.constantFrom(...of)));
    const text = fc.array(piece, { maxLength: 25 }).map((pieces) => pieces.join(""));
    const property = fc.property(text, fc.nat(), (written, seed) => {
      const whole = parsePieces(create, [written]);
      expect(parsePieces(create, randomPieces(written, seed))).toEqual(whole);
      expect(parsePieces(create, written.split(""))).toEqual(whole);
      const ownMarks = format === "gpt-oss" && marks.some((mark) => written.includes(mark));
      if (whole.calls.length === 0 && !ownMarks) expect(whole.content).toBe(written);
    });
    fc.assert(property, { numRuns: 40 * RUNS, seed: 11 });
  });

  test("without tools nothing is a call", () => {
    const text = writeCalls(format, [WEATHER]);
    const parser = createMessageParser({ toolCalls: format, tools: [] });
    expect(collect([...parser.push(text), ...parser.end()])).toEqual({
      content: text,
      reasoning: "",
      calls: [],
    });
  });
});
