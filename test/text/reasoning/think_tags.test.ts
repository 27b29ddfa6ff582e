import { describe, expect, test } from "vitest";
import {
  createMessageParser,
  type MessageParserOptions,
} from "../../../src/text/message_parser.ts";
import { parseAllCuts, progress } from "../cuts.ts";

/** Reasoning and content. */
function read(options: MessageParserOptions, text: string): string[] {
  const { reasoning, content } = parseAllCuts(() => createMessageParser(options), text);
  return [reasoning, content];
}

const ALWAYS = [
  // The prompt has opened the thinking.
  ["Two and two.\n</think>\n\nFour.", ["Two and two.\n", "Four."]],
  ["<think>\nTwo and two.\n</think>\n\nFour.\n", ["Two and two.\n", "Four."]],
  ["\n<think>Hm.</think>Four.", ["Hm.", "Four."]],
  ["</think>Four.", ["", "Four."]],
  ["<think>\n\n</think>\n\nFour.", ["", "Four."]],
  ["a </think> b </think> c", ["a ", "b </think> c"]],
  ["<think>a <think> b</think>c", ["a <think> b", "c"]],
  ["a < b </thin </think>c", ["a < b </thin ", "c"]],
] as const;

describe.each(["deepseek-r1", "qwen3-thinking"] as const)("%s", (reasoning) => {
  test.each(ALWAYS)("%j", (text, expected) => {
    expect(read({ reasoning }, text)).toEqual(expected);
  });

  test.each([
    ["Still think", "Still think"],
    ["<think>\nStill think \n", "Still think"],
    ["Still </thi", "Still </thi"],
  ])("%j, cut off while it thinks, is all reasoning", (text, expected) => {
    expect(read({ reasoning }, text)).toEqual([expected, ""]);
  });
});

describe.each(["deepseek-v3", "qwen3"] as const)("%s", (reasoning) => {
  test.each([
    ["<think>\nTwo and two.\n</think>\n\nFour.\n", ["Two and two.\n", "Four."]],
    ["\n<think>Hm.</think>Four.", ["Hm.", "Four."]],
    ["<think>\n\n</think>\n\nFour.", ["", "Four."]],
    ["<think>Still think", ["Still think", ""]],
  ])("%j begins with thinking", (text, expected) => {
    expect(read({ reasoning }, text)).toEqual(expected);
  });

  test.each([
    "Four.",
    "\n\nFour.\n",
    "The tag <think> opens, </think> closes.",
    "a</think>b",
    "<thin",
    "",
  ])("%j is all content, as it is", (text) => {
    expect(read({ reasoning }, text)).toEqual(["", text]);
  });

  test.each(ALWAYS)("%j with thinking asked for", (text, expected) => {
    expect(read({ reasoning, wantsThinking: true }, text)).toEqual(expected);
  });
});

test("reasoning and content come as they are generated, but for what may be a tag or white space", () => {
  const create = () => createMessageParser({ reasoning: "deepseek-r1" });
  const shown = progress(create, "ab </think>\nc d").map((events) =>
    events.map((event) => ("text" in event ? `${event.type} ${event.text}` : "")).join("; "),
  );
  expect(shown).toEqual([
    "reasoning a",
    "reasoning b",
    ...Array<string>(8).fill(""),
    "reasoning  ",
    "",
    "content c",
    "",
    "content  d",
  ]);
});

describe("unseparated", () => {
  test.each([
    ["deepseek-r1", "a\n</think>\n\nb "],
    ["deepseek-r1", "<think>a"],
    ["qwen3", " <think>\na</think>b"],
    ["qwen3", "b"],
  ] as const)("%s leaves the tags in the content: %j", (reasoning, text) => {
    expect(read({ reasoning, separatesReasoning: false }, text)).toEqual(["", text]);
  });

  test("a call that is only thought about is content", () => {
    const call = '<tool_call>{"name": "f"}</tool_call>';
    const options = { toolCalls: "qwen25", tools: ["f"], reasoning: "qwen3" } as const;
    const text = `<think>\n${call}\n</think>\n\n${call}`;
    const create = (separatesReasoning: boolean) => () =>
      createMessageParser({ ...options, separatesReasoning });
    expect(parseAllCuts(create(true), text)).toEqual({
      reasoning: `${call}\n`,
      content: "",
      calls: [{ name: "f", arguments: "{}" }],
    });
    expect(parseAllCuts(create(false), text)).toEqual({
      reasoning: "",
      content: `<think>\n${call}\n</think>`,
      calls: [{ name: "f", arguments: "{}" }],
    });
  });
});

describe("gpt-oss", () => {
  const analysis = "<|channel|>analysis<|message|>";
  const final = "<|start|>assistant<|channel|>final<|message|>";
  const call = "<|start|>assistant<|channel|>commentary to=functions.f json<|message|>{}<|call|>";

  test.each([
    [`${analysis}Hm.<|end|>${final}Four.<|return|>`, ["Hm.", "Four."]],
    [`${analysis}A<|end|><|start|>assistant${analysis}B<|end|>${final}C`, ["A\nB", "C"]],
    [`${analysis}Hm`, ["Hm", ""]],
    ["Four.", ["", "Four."]],
    [`${analysis}Hm.<|end|>${call}`, ["Hm.", call]],
  ])("%j", (text, expected) => {
    expect(read({ reasoning: "gpt-oss" }, text)).toEqual(expected);
  });

  test("reads calls beside the reasoning", () => {
    const options = { reasoning: "gpt-oss", toolCalls: "gpt-oss", tools: ["f"] } as const;
    const text = `${analysis}Hm.<|end|>${call}`;
    expect(parseAllCuts(() => createMessageParser(options), text)).toEqual({
      reasoning: "Hm.",
      content: "",
      calls: [{ name: "f", arguments: "{}" }],
    });
  });
});
