import { describe, expect, test } from "vitest";
import { InvalidRequestError } from "../../src/errors.ts";
import { isLongJson, MAX_JSON_DEPTH, nestsTooDeep } from "../../src/request_limits.ts";
import { ChatTemplate } from "../../src/text/chat_template.ts";

const SOURCE =
  "{% for m in messages %}{{ m.content }}{% for c in m.tool_calls or [] %}{{ c.function.arguments | tojson }}{% endfor %}{% endfor %}{{ tools | tojson }}{{ extra | tojson }}";
const template = new ChatTemplate(SOURCE, { bos_token: "", eos_token: "" });

const json = (depth: number) => `${'{"a":'.repeat(depth)}1${"}".repeat(depth)}`;

function nested(depth: number): object {
  let value: object = {};
  for (let i = 0; i < depth; i++) value = { a: value };
  return value;
}

function rendered(given: { args?: string; tools?: readonly object[]; extra?: object }): string {
  const { args, tools, extra } = given;
  const call = { type: "function", function: { name: "f", arguments: args ?? "{}" } } as const;
  return template.render({
    messages: [
      { role: "user", content: "Hi" },
      { role: "assistant", content: null, tool_calls: args === undefined ? [] : [call] },
    ],
    addGenerationPrompt: true,
    ...(tools && { tools }),
    variables: { extra: extra ?? null },
  });
}

describe("what a template is given", () => {
  test("arguments of calls nest as deep as bodies", () => {
    expect(rendered({ args: json(100) })).toContain(json(100).replaceAll(":", ": "));
    expect(() => rendered({ args: json(MAX_JSON_DEPTH) })).not.toThrow(/deeper/);
  });

  test.each([MAX_JSON_DEPTH + 1, 10 * MAX_JSON_DEPTH, 100_000])(
    "arguments of %i levels are refused",
    (depth) => {
      expect(() => rendered({ args: json(depth) })).toThrow(
        "Cannot read messages[1].tool_calls[0].function.arguments: it nests deeper than 512 levels",
      );
    },
  );

  test.each([5120, 100_000])("tools and variables of %i levels are refused, not fatal", (depth) => {
    expect(() => rendered({ tools: [nested(depth)] })).toThrow(InvalidRequestError);
    expect(() => rendered({ extra: nested(depth) })).toThrow(InvalidRequestError);
  });
});

test("brackets in texts are no nesting", () => {
  expect(nestsTooDeep(JSON.stringify({ a: "[".repeat(1000), b: '\\"[' }))).toBe(false);
  expect(nestsTooDeep(`"${'\\"['.repeat(600)}`)).toBe(false);
  expect(nestsTooDeep(json(MAX_JSON_DEPTH))).toBe(false);
  expect(nestsTooDeep(json(MAX_JSON_DEPTH + 1))).toBe(true);
});

test("the length of JSON is known without writing it, whatever it nests", () => {
  const value = { a: ["bc", 1, null, { d: true }], e: {} };
  expect(isLongJson(value, 37)).toBe(false);
  expect(isLongJson(value, 20)).toBe(true);
  expect(isLongJson(nested(100_000), 2 ** 20)).toBe(false);
  expect(isLongJson(nested(1_000_000), 2 ** 20)).toBe(true);
  const circle: unknown[] = [];
  circle.push(circle);
  expect(isLongJson(circle, 1000)).toBe(true);
});
