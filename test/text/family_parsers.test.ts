import { expect, test } from "vitest";
import { InvalidRequestError } from "../../src/errors.ts";
import { parsersOf } from "../../src/text/family_parsers.ts";

test("parsersOf names the parsers of a family, and none where there is none", () => {
  expect(parsersOf("deepseek-v3")).toEqual({ toolCalls: "deepseekv3", reasoning: "deepseek-v3" });
  expect(parsersOf("qwen3")).toEqual({ toolCalls: "qwen25", reasoning: "qwen3" });
  expect(parsersOf("gpt-oss")).toEqual({ toolCalls: "gpt-oss", reasoning: "gpt-oss" });
  // Forms that are known and that nothing reads yet.
  expect(parsersOf("qwen3-coder")).toEqual({});
  expect(parsersOf("kimi-k2-thinking")).toEqual({ toolCalls: "kimi_k2" });
  expect(parsersOf("unknown")).toEqual({});
  expect(() => parsersOf("llama-9")).toThrow(InvalidRequestError);
});
