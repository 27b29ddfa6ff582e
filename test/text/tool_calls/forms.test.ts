/** What is peculiar to each form of tool calls: lenient spots, malformed calls, text around them. */
import { describe, expect, test } from "vitest";
import { createMessageParser } from "../../../src/text/message_parser.ts";
import type { ToolCallParserName } from "../../../src/text/tool_calls/formats.ts";
import { type ParsedMessage, parseAllCuts } from "../cuts.ts";

const TOOLS = ["get_weather", "add", "now"];

function read(toolCalls: ToolCallParserName, text: string): ParsedMessage {
  return parseAllCuts(() => createMessageParser({ toolCalls, tools: TOOLS }), text);
}

/** Content, then calls as `name arguments`. */
function told(toolCalls: ToolCallParserName, text: string): string[] {
  const { content, calls } = read(toolCalls, text);
  return [content, ...calls.map((call) => `${call.name} ${call.arguments}`)];
}

/** A call as DeepSeek-V3 writes it, with what stands between the separator and its end. */
const v3 = (inner: string) =>
  `<｜tool▁call▁begin｜>function<｜tool▁sep｜>${inner}<｜tool▁call▁end｜>`;
const v3Calls = (...inner: string[]) =>
  `<｜tool▁calls▁begin｜>${inner.map(v3).join("\n")}<｜tool▁calls▁end｜>`;
const fenced = (name: string, args: string) => `${name}\n\`\`\`json\n${args}\n\`\`\``;

describe("deepseekv3", () => {
  test.each([
    ["text before", `Let me look.\n\n${v3Calls(fenced("now", "{}"))}`, ["Let me look.", "now {}"]],
    ["text behind", `${v3Calls(fenced("now", "{}"))}\nDone.`, ["\nDone.", "now {}"]],
    [
      "text between",
      `a ${v3(fenced("now", "{}"))} b ${v3(fenced("add", "{}"))}`,
      ["a b", "now {}", "add {}"],
    ],
    ["nothing around a single call", v3(fenced("now", "{}")), ["", "now {}"]],
    ["white space behind", `${v3Calls(fenced("now", "{}"))}\n \n`, ["", "now {}"]],
    [
      "the model's own spaces",
      v3Calls(fenced("add", '{ "a" :1,\n "b":\t2 }')),
      ["", 'add { "a" :1,\n "b":\t2 }'],
    ],
    ["no fence at all", v3Calls('add\n{"a": 1}'), ["", 'add {"a": 1}']],
    ["a fence without a word", v3Calls('add\n```\n{"a": 1}\n```'), ["", 'add {"a": 1}']],
    ["no fence behind", v3Calls('add\n```json\n{"a": 1}'), ["", 'add {"a": 1}']],
    ["a line behind the fence", v3Calls('add\n```json\n{"a": 1}\n```\n'), ["", 'add {"a": 1}']],
    ["no arguments", v3Calls("now\n```json\n\n```"), ["", "now {}"]],
    ["arguments that are no JSON", v3Calls(fenced("add", "1 and 2")), ["", "add 1 and 2"]],
    ["a bracket too few", v3Calls(fenced("add", '{"a": [1}')), ["", 'add {"a": [1}']],
    ["a string without its end", v3Calls(fenced("add", '{"a": "1')), ["", 'add {"a": "1']],
    ["a list", v3Calls(fenced("add", "[1, 2]")), ["", "add [1, 2]"]],
  ])("%s", (_, text, expected) => {
    expect(told("deepseekv3", text)).toEqual(expected);
  });

  test.each([
    ["no separator", "<｜tool▁calls▁begin｜><｜tool▁call▁begin｜>function now\n```json\n{}\n```"],
    ["no name", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>\n```json\n{}\n```<｜tool▁call▁end｜>"],
    ["no arguments", "<｜tool▁call▁begin｜>function<｜tool▁sep｜>now and then"],
    ["only the beginning", "So: <｜tool▁calls▁begin｜><｜tool▁call▁begin｜>func"],
    ["ends alone", '{"a": 7}\n```<｜tool▁call▁end｜><｜tool▁calls▁end｜>'],
    ["a mark alone", "<｜tool▁calls▁begin｜>"],
  ])("%s: content, all of it", (_, text) => {
    expect(told("deepseekv3", text)).toEqual([text]);
  });

  test("a call within the arguments of an unknown tool is not called", () => {
    const inner = JSON.stringify(v3Calls(fenced("now", "{}")));
    const text = v3Calls(fenced("launch", `{"note": ${inner}}`));
    expect(told("deepseekv3", text)).toEqual([text]);
  });

  test("a broken header does not hide the call behind it", () => {
    const text = `<｜tool▁calls▁begin｜><｜tool▁calls▁begin｜>${v3(fenced("now", "{}"))}`;
    expect(told("deepseekv3", text)).toEqual(["<｜tool▁calls▁begin｜>", "now {}"]);
  });
});

describe("deepseekv31", () => {
  const call = (name: string, args: string) =>
    `<｜tool▁call▁begin｜>${name}<｜tool▁sep｜>${args}<｜tool▁call▁end｜>`;

  test.each([
    ["white space around the arguments", call("add", ' {"a": 1} '), ["", 'add {"a": 1}']],
    ["no arguments", call("now", ""), ["", "now {}"]],
    [
      "an unknown tool behind a known one",
      call("now", "{}") + call("launch", "{}"),
      [call("launch", "{}"), "now {}"],
    ],
    ["the form of V3", v3(fenced("now", "{}")), [v3(fenced("now", "{}"))]],
  ])("%s", (_, text, expected) => {
    expect(told("deepseekv31", text)).toEqual(expected);
  });
});

describe.each(["qwen25", "hermes"] as const)("%s", (format) => {
  const call = (json: string) => `<tool_call>\n${json}\n</tool_call>`;

  test.each([
    ["text before", `I'll see.\n${call('{"name": "now"}')}`, ["I'll see.", "now {}"]],
    [
      "no white space",
      '<tool_call>{"name":"add","arguments":{"a":1}}</tool_call>',
      ["", 'add {"a":1}'],
    ],
    [
      "arguments before the name",
      call('{"arguments": {"a": 1}, "name": "add"}'),
      ["", 'add {"a": 1}'],
    ],
    [
      "further members",
      call('{"id": "1", "name": "add", "arguments": {"a": 1}, "x": [2]}'),
      ["", 'add {"a": 1}'],
    ],
    ["an escaped name", call('{"name": "\\u0061dd", "arguments": {}}'), ["", "add {}"]],
    ["null for arguments", call('{"name": "now", "arguments": null}'), ["", "now null"]],
    ["no end", '<tool_call>\n{"name": "now", "arguments": {}}', ["", "now {}"]],
    ["a bracket too few", call('{"name": "add", "arguments": {"a": 1'), ["", 'add {"a": 1']],
    [
      "a bracket too many",
      call('{"name": "add", "arguments": {"a": 1}}}'),
      ["}\n</tool_call>", 'add {"a": 1}'],
    ],
  ])("%s", (_, text, expected) => {
    expect(told(format, text)).toEqual(expected);
  });

  test.each([
    call("now()"),
    call('{"name": now}'),
    call('{"name": 5, "arguments": {}}'),
    call('{"arguments": {}}'),
    call('{"function": "now", "arguments": {}}'),
    call('{"name": "no\nw"}'),
    call('{"name": "launch", "arguments": {"call": "<tool_call>{\\"name\\": \\"now\\"}"}}'),
    '<tool_call>\n{"name": "no',
    "</tool_call>",
    "<tool_calls>",
  ])("%j is content, all of it", (text) => {
    expect(told(format, text)).toEqual([text]);
  });
});

describe("llama3", () => {
  test.each([
    ["a tag", '<|python_tag|>{"name": "add", "parameters": {"a": 1}}', ["", 'add {"a": 1}']],
    ["text before the tag", 'Hm. <|python_tag|>{"name": "now"}', ["Hm.", "now {}"]],
    [
      "a tag each",
      '<|python_tag|>{"name": "now"}\n<|python_tag|>{"name": "now"}',
      ["", "now {}", "now {}"],
    ],
    ["white space first", '\n {"name": "now", "parameters": {}}', ["", "now {}"]],
    ["arguments by the other name", '{"name": "add", "arguments": {"a": 1}}', ["", 'add {"a": 1}']],
    ["a type", '{"type": "function", "name": "now", "parameters": {}}', ["", "now {}"]],
    [
      "an unknown tool behind",
      '{"name": "now"}; {"name": "launch"}',
      ['; {"name": "launch"}', "now {}"],
    ],
  ])("%s", (_, text, expected) => {
    expect(told("llama3", text)).toEqual(expected);
  });

  test.each([
    '{"city": "Paris", "name": "now"}',
    '{"name": "Anna", "age": 34}',
    'Like this: {"name": "now", "parameters": {}}',
    "<|python_tag|>print(1)",
    "{now}",
  ])("%j is content, all of it", (text) => {
    expect(told("llama3", text)).toEqual([text]);
  });

  test("an object that is the answer is shown as it comes", () => {
    const parser = createMessageParser({ toolCalls: "llama3", tools: TOOLS });
    const shown = parser.push('{"name": "Anna", "ag');
    expect(shown).toEqual([{ type: "content", text: '{"name": "Anna", "ag' }]);
  });
});

describe("pythonic", () => {
  test.each([
    [
      "numbers",
      "[add(a=1, b=-2.5, c=1e3, d=1., e=.5, f=+7, g=1_000, h=0x1F)]",
      ["", 'add {"a": 1, "b": -2.5, "c": 1e3, "d": 1.0, "e": 0.5, "f": 7, "g": 1000, "h": 31}'],
    ],
    ["words", "[add(a=True, b=False, c=None)]", ["", 'add {"a": true, "b": false, "c": null}']],
    [
      "strings",
      `[add(a='it\\'s', b="\\x41\\u00e9\\101\\q", c='''x'y''', d='"')]`,
      ["", 'add {"a": "it\'s", "b": "AéA\\\\q", "c": "x\'y", "d": "\\""}'],
    ],
    ["empty strings", `[add(a='', b="")]`, ["", 'add {"a": "", "b": ""}']],
    [
      "lists, tuples, dictionaries",
      "[add(a=[1, (2, 3,)], b={'k': {}, 2: [None,]})]",
      ["", 'add {"a": [1, [2, 3]], "b": {"k": {}, "2": [null]}}'],
    ],
    ["no spaces", "[add(a=1,b=[2,3]),now()]", ["", 'add {"a": 1, "b": [2, 3]}', "now {}"]],
    [
      "spaces and commas to spare",
      "[ add ( a = 1 , ) , now( ) , ]",
      ["", 'add {"a": 1}', "now {}"],
    ],
    ["marks around", "<|python_start|>[now()]<|python_end|>", ["", "now {}"]],
    ["text before", "I will: [now()]", ["I will:", "now {}"]],
    ["an unknown tool behind", "[now(), launch(a=1)]", [", launch(a=1)]", "now {}"]],
    // Once a call has begun, what cannot be JSON goes out as it is.
    ["an expression", "[add(a=f(1), b=2), now()]", ["", 'add {"a": f(1), b=2', "now {}"]],
    ["two literals", '[add(a=")" "x")]', ["", 'add {"a": ")""x"']],
  ])("%s", (_, text, expected) => {
    expect(told("pythonic", text)).toEqual(expected);
  });

  test.each([
    "[launch(a=1)]",
    "[now]",
    "[add(1, 2)]",
    "[add(a==1)]",
    "see [now](http://x)",
    "now()",
    "[now(",
    "[1, 2, now()]",
  ])("%j is content, all of it", (text) => {
    expect(told("pythonic", text)).toEqual([text]);
  });
});

describe("mistral", () => {
  test.each([
    [
      "names and arguments",
      '[TOOL_CALLS]add[ARGS]{"a": 1}[TOOL_CALLS]now[ARGS]{}',
      ["", 'add {"a": 1}', "now {}"],
    ],
    ["an id", '[TOOL_CALLS]add[CALL_ID]a1B2c3D4e[ARGS]{"a": 1}', ["", 'add {"a": 1}']],
    ["no mark before the arguments", '[TOOL_CALLS]add{"a": 1}', ["", 'add {"a": 1}']],
    ["arguments without an end", '[TOOL_CALLS]add[ARGS]{"a": 1', ["", 'add {"a": 1']],
    [
      "broken arguments",
      '[TOOL_CALLS]add[ARGS]{"a": [1 [TOOL_CALLS]now[ARGS]{}',
      ["", 'add {"a": [1', "now {}"],
    ],
    [
      "spaces",
      '[TOOL_CALLS] [ {"name": "add", "arguments": { "a" : [ 1 ] } } ]',
      ["", 'add { "a" : [ 1 ] }'],
    ],
    [
      "text before",
      'Let me see.\n[TOOL_CALLS][{"name": "now", "arguments": {}}]',
      ["Let me see.", "now {}"],
    ],
    [
      "an unknown tool behind",
      '[TOOL_CALLS] [{"name": "now"}, {"name": "launch"}]',
      [', {"name": "launch"}]', "now {}"],
    ],
  ])("%s", (_, text, expected) => {
    expect(told("mistral", text)).toEqual(expected);
  });

  test.each([
    "[TOOL_CALLS]",
    "[TOOL_CALLS] [1]",
    "[TOOL_CALLS]launch[ARGS]{}",
    "[TOOL_CALLS]now",
    '[{"name": "now"}]',
  ])("%j is content, all of it", (text) => {
    expect(told("mistral", text)).toEqual([text]);
  });
});

describe("kimi_k2", () => {
  const call = (id: string, args: string) =>
    `<|tool_call_begin|>${id}<|tool_call_argument_begin|>${args}<|tool_call_end|>`;

  test.each([
    ["white space", call(" functions.add:3 ", ' {"a": 1} '), ["", 'add {"a": 1}']],
    ["no number", call("functions.now", "{}"), [call("functions.now", "{}")]],
    ["no namespace", call("now:0", "{}"), [call("now:0", "{}")]],
  ])("%s", (_, text, expected) => {
    expect(told("kimi_k2", text)).toEqual(expected);
  });
});

describe("gpt-oss", () => {
  const call = "<|channel|>commentary to=functions.add <|constrain|>json<|message|>";

  test.each([
    [
      "the recipient first",
      ' to=functions.add<|channel|>commentary json<|message|>{"a":1}<|call|>',
      ["", 'add {"a":1}'],
    ],
    [
      "a preamble",
      `<|channel|>commentary<|message|>Let me see.<|end|><|start|>assistant${call}{}<|call|>`,
      ["Let me see.", "add {}"],
    ],
    ["the answer", "<|channel|>final<|message|>Hi < there.\n<|return|>", ["Hi < there.\n"]],
    ["the answer without an end", "<|channel|>final<|message|>Hi", ["Hi"]],
    ["no channel", "<|start|>assistant<|message|>Hi<|end|>", ["Hi"]],
    [
      "two texts",
      "<|channel|>commentary<|message|>A<|end|><|start|>assistant<|channel|>final<|message|>B",
      ["A\nB"],
    ],
    [
      "no end between messages",
      "<|channel|>commentary<|message|>A<|channel|>final<|message|>B",
      ["A\nB"],
    ],
    ["no arguments", `${call}<|call|>`, ["", "add {}"]],
    ["an end too many", "<|channel|>final<|message|>Hi<|end|><|end|>", ["Hi"]],
    ["arguments without an end", `${call}{"a": 1<|end|>`, ["", 'add {"a": 1']],
  ])("%s", (_, text, expected) => {
    expect(told("gpt-oss", text)).toEqual(expected);
  });

  test.each([
    "<|channel|>commentary to=functions.launch <|constrain|>json<|message|>{}<|call|>",
    "<|channel|>commentary to=browser.open<|message|>{}<|call|>",
    "<|channel|>analysis<|message|>Hm.<|end|>",
    "<|channel|> final",
    "to=functions.add",
  ])("%j is content, all of it", (text) => {
    expect(told("gpt-oss", text)).toEqual([text]);
  });
});
