import { describe, expect, test } from "vitest";
import type { ToolConstraint } from "../../../src/grammar/constraints/tool_grammar.ts";
import type { Constraint } from "../../../src/grammar/grammar.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { compiler, follow } from "../samples/special_tokens.ts";

const tag = (structures: readonly unknown[], triggers: readonly string[]): Constraint => ({
  kind: "structural_tag",
  source: JSON.stringify({ structures, triggers }),
});

describe("structural tags", () => {
  const schema = { type: "object", properties: { a: { type: "integer" } }, required: ["a"] };
  const weather = { begin: "<function=weather>", schema, end: "</function>" };
  const clock = { begin: "<function=clock>", schema: { const: {} }, end: "</function>" };
  const constraint = tag([weather, clock], ["<function="]);

  test.each([
    ["", "complete"],
    ["any text < of <functions> and <func", "complete"],
    ['Sure: <function=weather>{"a": 1}</function>', "complete"],
    ['<function=clock>{}</function> and <function=weather>{"a":2}</function>.', "complete"],
    ["<func<function=clock>{}</function>", "complete"],
    ["text <function=", "begun"],
    ["<function=other>", "refused"],
    ['<function=weather>{"a": "x"', "refused"],
    ["<function=weather>{}", "refused"],
    ["<function=clock>{}<", "begun"],
    ["<function=clock>{} ", "refused"],
    ["any [[unused]]", "refused"],
    ["any [[think]]", "refused"],
  ])("%j is %s", (text, state) => {
    expect(follow(constraint, text)).toBe(state);
  });

  test("a trigger of special tokens cannot come up in text", () => {
    const begin = "<｜tool▁call▁begin｜>f:";
    const call = tag([{ begin, schema: { type: "null" }, end: "" }], ["<｜tool▁call▁begin｜>"]);
    expect(follow(call, "text <｜tool▁call▁begin｜>g is only text")).toBe("complete");
    expect(follow(call, "text [[call▁begin]]f:null more")).toBe("complete");
    expect(follow(call, "text [[call▁begin]]g")).toBe("refused");
  });

  test("of two triggers the one complete first counts", () => {
    const of = (begin: string) => ({ begin, schema: { const: 1 }, end: "." });
    const two = tag([of("ab!"), of("xabc?")], ["ab", "xabc"]);
    expect(follow(two, "xab!1.")).toBe("complete");
    expect(follow(two, "xabc")).toBe("refused");
  });

  test.each([
    ["{", "it is not JSON"],
    ["[]", "it must be an object"],
    [{ structures: [], triggers: ["a"] }, "it must be a list, and not empty (at /structures)"],
    [{ structures: [weather], triggers: [""] }, "(at /triggers)"],
    [{ structures: [weather], triggers: ["<", "\ud83d"] }, "half a surrogate pair"],
    [{ structures: [weather], triggers: ["<".repeat(20_001)] }, "too many or too long"],
    [
      { structures: [weather], triggers: Array.from({ length: 150 }, () => "<") },
      "too many or too long",
    ],
    [{ structures: [weather], triggers: ["<tool>"] }, "(at /structures/0/begin)"],
    [{ structures: [{ begin: "<", end: ">" }], triggers: ["<"] }, "(at /structures/0/schema)"],
    [
      { structures: [weather], triggers: ["<"], at_least: 1 },
      "there is no such field (at /at_least",
    ],
    [{ structures: [{ ...weather, open: 1 }], triggers: ["<"] }, "(at /structures/0/open)"],
    [{ type: "json", structures: [weather], triggers: ["<"] }, "(at /type)"],
    [{ structures: [{ ...weather, schema: { minimum: "1" } }], triggers: ["<"] }, "minimum"],
  ])("%j is refused", (value, message) => {
    const source = typeof value === "string" ? value : JSON.stringify(value);
    const compile = () => compiler.compile({ kind: "structural_tag", source });
    expect(compile).toThrow(GrammarError);
    expect(compile).toThrow(message);
  });

  test("what is ignored of its schemas is told, or refused where the request asks for that", () => {
    const ofTypo = tag([{ ...weather, schema: { minimun: 1 } }], ["<"]);
    const warning =
      'Ignored "minimun": it is no keyword of JSON Schema; did you mean "minimum"? (at /minimun)';
    expect(compiler.compile(ofTypo).warnings).toEqual([warning]);
    const thinking = { begin: "<a>", end: "</a>", isOpen: false };
    expect(compiler.compile({ ...ofTypo, thinking }).warnings).toEqual([warning]);
    expect(() => compiler.compile({ ...ofTypo, jsonUnknown: "refuse" })).toThrow("minimun");
  });
});

describe("tool calls", () => {
  const functions = [
    {
      name: "get_weather",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    },
    { name: "now" },
  ];
  const tools = (options: Partial<ToolConstraint>): Constraint => ({
    kind: "tools",
    source: JSON.stringify({
      format: "deepseekv3",
      functions,
      required: true,
      parallel: true,
      ...options,
    }),
  });
  const call = (name: string, args: string) =>
    `[[call▁begin]]function[[sep]]${name}\n\`\`\`json\n${args}\n\`\`\`[[call▁end]]`;
  const weather = call("get_weather", '{"city": "Rome"}');

  test.each([
    [{}, `[[calls▁begin]]${weather}[[calls▁end]]`, "complete"],
    [{}, `[[calls▁begin]]${weather}\n${call("now", "{}")}[[calls▁end]]`, "complete"],
    [{}, `[[calls▁begin]]${weather}`, "begun"],
    [{}, "It is sunny", "refused"],
    [{}, `[[calls▁begin]][[call▁begin]]function[[sep]]get_time`, "refused"],
    [
      {},
      `[[calls▁begin]][[call▁begin]]function[[sep]]get_weather\n\`\`\`json\n{"city": 1`,
      "refused",
    ],
    [{ parallel: false }, `[[calls▁begin]]${weather}\n`, "refused"],
    [{ parallel: false }, `[[calls▁begin]]${weather}[[calls▁end]]`, "complete"],
    [{ required: false }, "It is sunny", "complete"],
    [{ required: false }, `Let me see.[[calls▁begin]]${weather}[[calls▁end]]`, "complete"],
    [{ required: false }, `[[calls▁begin]]${weather}[[calls▁end]] then`, "refused"],
    [{ required: false }, `[[calls▁begin]][[call▁begin]]function[[sep]]x`, "refused"],
    [
      { functions: [functions[1]!] },
      `[[calls▁begin]]${call("now", '{"any": [1]}')}[[calls▁end]]`,
      "complete",
    ],
    [
      { format: "deepseekv31" },
      '[[calls▁begin]][[call▁begin]]get_weather[[sep]]{"city":"Rome"}[[call▁end]][[calls▁end]]',
      "complete",
    ],
    [
      { format: "qwen25" },
      '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Rome"}}\n</tool_call>',
      "complete",
    ],
    [
      { format: "qwen25", required: false },
      'Well. <tool_call>\n{"name": "now", "arguments": {}}\n</tool_call>\n<tool_call>\n{"name": "n',
      "begun",
    ],
    [{ format: "qwen25", required: false }, "no <tool_call> at all", "refused"],
    [{ format: "llama3" }, '{"name": "now", "parameters": {"a": 1}}', "complete"],
  ] as const)("%j: %j is %s", (options, text, state) => {
    expect(follow(tools(options), text)).toBe(state);
  });

  test("parameters that cannot be enforced are refused with the tool's name", () => {
    const parameters = { type: "object", properties: { a: { pattern: "(" } } };
    const compile = () => compiler.compile(tools({ functions: [{ name: "f", parameters }] }));
    expect(compile).toThrow(GrammarError);
    expect(compile).toThrow("tool f");
    expect(compile).toThrow("/properties/a/pattern");
  });

  test("what is ignored of parameters is told with the tool's name", () => {
    const parameters = { type: "object", unevaluatedStuff: 1 };
    const ofStuff = tools({ functions: [{ name: "f", parameters }] });
    expect(compiler.compile(ofStuff).warnings).toEqual([
      'Tool f: Ignored "unevaluatedStuff": it is no keyword of JSON Schema (at /unevaluatedStuff)',
    ]);
    const strict = () => compiler.compile({ ...ofStuff, jsonUnknown: "refuse" });
    expect(strict).toThrow("tool f");
    expect(strict).toThrow("unevaluatedStuff");
  });
});

describe("answers behind thoughts", () => {
  const thinking = { begin: "<think>", end: "</think>", isOpen: false };
  const digits: Constraint = { kind: "regex", source: "[0-9]{2}" };

  test.each([
    [thinking, "12", "complete"],
    [thinking, "[[<think>]]so </think> 99?[[</think>]]\n\n12", "complete"],
    [thinking, "[[<think>]]so", "begun"],
    [thinking, "[[</think>]]", "refused"],
    [thinking, "hm 12", "refused"],
    [{ ...thinking, isOpen: true }, "so 12[[</think>]]12", "complete"],
    [{ ...thinking, isOpen: true }, "12", "begun"],
    [{ begin: "<t>", end: "</t>", isOpen: false }, "<t>a </ b</t>12", "complete"],
    [{ begin: "<t>", end: "</t>", isOpen: false }, "<t>a</t>b", "refused"],
    [{ begin: "<t>", end: "</t>", isOpen: true }, "a</t>\n", "begun"],
  ])("%j: %j is %s", (form, text, state) => {
    expect(follow({ ...digits, thinking: form }, text)).toBe(state);
  });

  test("are a grammar of their own in the cache", () => {
    const plain = compiler.compile(digits);
    expect(compiler.compile({ ...digits, thinking })).not.toBe(plain);
    expect(compiler.compile({ ...digits, thinking: { ...thinking } })).toBe(
      compiler.compile({ ...digits, thinking }),
    );
  });
});
