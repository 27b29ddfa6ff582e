import { expect, test } from "vitest";
import { readJson } from "../../src/checkpoint/json_file.ts";
import { jsonExcess, MAX_JSON_DEPTH, MAX_JSON_VALUES } from "../../src/checkpoint/json_limits.ts";
import { memorySource } from "../../src/checkpoint/memory_source.ts";

const nested = (levels: number) => "[".repeat(levels) + "]".repeat(levels);

test("as many levels as there may be are read, one more is refused", () => {
  expect(jsonExcess(nested(MAX_JSON_DEPTH))).toBeUndefined();
  const excess = `it nests deeper than ${MAX_JSON_DEPTH} levels`;
  expect(jsonExcess(nested(MAX_JSON_DEPTH + 1))).toBe(excess);
  expect(jsonExcess(`{"a":`.repeat(MAX_JSON_DEPTH + 1))).toBe(excess);
  expect(jsonExcess(`[[],${nested(MAX_JSON_DEPTH)}]`)).toBe(excess);
});

test("values and keys are counted together", () => {
  const list = (values: number) => `[${"0,".repeat(values - 1)}0]`;
  // The list is one of them.
  expect(jsonExcess(list(MAX_JSON_VALUES - 1))).toBeUndefined();
  expect(jsonExcess(list(MAX_JSON_VALUES))).toBe(`it holds more than ${MAX_JSON_VALUES} values`);
});

test("what stands in texts does not count, whatever backslashes are in front of a quote", () => {
  const deep = nested(2 * MAX_JSON_DEPTH);
  for (const text of [deep, `\\${deep}`, `"${deep}`, `\\"${deep}`, `${deep}\\`]) {
    expect(jsonExcess(JSON.stringify([text, { [text]: text }]))).toBeUndefined();
  }
  expect(jsonExcess(`["\\\\",${deep}]`)).toMatch(/deeper/);
  expect(jsonExcess(`["${deep}`)).toBeUndefined();
});

test("a file beyond the limits is refused by its name, before it is parsed", async () => {
  const source = memorySource({ "config.json": new TextEncoder().encode(nested(100_000)) });
  await expect(readJson(source, "config.json")).rejects.toThrow(
    "Cannot load config.json: it nests deeper than 100 levels",
  );
});
