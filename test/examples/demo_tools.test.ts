import { describe, expect, test } from "vitest";
import { runTool, TOOLS, toolSchemas } from "../../examples/browser/chat/tools.ts";

describe("the demo's tools", () => {
  test("compute, and tell the time where a city is known", () => {
    expect(runTool(TOOLS, "add", '{"a": 12, "b": 35}')).toEqual({
      result: '{"result":47}',
      isRefused: false,
    });
    expect(runTool(TOOLS, "subtract", '{"a": 1, "b": 2}').result).toBe('{"result":-1}');
    expect(runTool(TOOLS, "multiply", '{"a": 7, "b": 6}').result).toBe('{"result":42}');
    expect(runTool(TOOLS, "divide", '{"a": 1, "b": 4}').result).toBe('{"result":0.25}');
    for (const city of ["Tokyo", "são paulo", "New York", "Zurich"]) {
      const { result, isRefused } = runTool(TOOLS, "get_time", JSON.stringify({ city }));
      expect(isRefused, city).toBe(false);
      expect(JSON.parse(result), city).toEqual({ time: expect.stringMatching(/^\d\d:\d\d$/) });
    }
  });

  test.each([
    ["add", '{"a": 1}', "b is missing"],
    ["add", '{"a": 1, "b": "2"}', "b must be a number"],
    ["add", '{"a": 1, "b": 2, "c": 3}', "there is no parameter c"],
    ["add", "[1, 2]", "the arguments are not an object"],
    ["add", '{"a": 1', "the arguments are not JSON"],
    ["add", '{"__proto__": 1, "a": 1, "b": 2}', "there is no parameter __proto__"],
    ["divide", '{"a": 1, "b": 0}', "cannot divide by 0"],
    ["get_time", '{"city": "Atlantis"}', 'no time zone is named after "Atlantis"'],
    ["get_time", '{"city": 5}', "city must be a string"],
    ["eval", "{}", "there is no tool eval"],
  ])("%s refuses %s, which the model is told", (name, written, error) => {
    expect(runTool(TOOLS, name, written)).toEqual({
      result: JSON.stringify({ error }),
      isRefused: true,
    });
  });

  test("are shown to chat templates in OpenAI's form", () => {
    expect(toolSchemas(TOOLS)).toHaveLength(TOOLS.length);
    expect(toolSchemas(TOOLS)[0]).toEqual({
      type: "function",
      function: {
        name: "get_time",
        description: "Get the current time in a city.",
        parameters: {
          type: "object",
          properties: { city: { type: "string", description: "City name" } },
          required: ["city"],
        },
      },
    });
  });
});
