/** The embedded model thinks, and calls tools, through the endpoint. */
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import { createApp } from "../../../src/server/app.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import { openEngine } from "../../support/engines/engine.ts";
import { answer, events, post } from "../../support/server/http_client.ts";

interface Message {
  readonly content: string | null;
  readonly reasoning_content: string | null;
  readonly tool_calls: readonly { readonly function: Called }[] | null;
}

interface Called {
  readonly name: string | null;
  readonly arguments: string;
}

const parameters = {
  type: "object",
  properties: { city: { type: "string" }, unit: { type: "string" } },
  required: ["city"],
};
const tools = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "Get the current weather in a city.",
      parameters,
    },
  },
  {
    type: "function",
    function: {
      name: "get_time",
      description: "Get the current time in a city.",
      parameters: { type: "object", properties: { city: { type: "string" } }, required: ["city"] },
    },
  },
];

let engine: Engine;
let app: ReturnType<typeof createApp>;

const ask = (content: string, more: object) => ({
  messages: [{ role: "user", content }],
  temperature: 0,
  ...more,
});

async function complete(body: object) {
  const response = await post(app, "/v1/chat/completions", body);
  const { choices } = await answer<{ choices: { message: Message; finish_reason: string }[] }>(
    response,
  );
  return choices[0]!;
}

async function deltas(body: object): Promise<Message[]> {
  const response = await post(app, "/v1/chat/completions", { ...body, stream: true });
  return (await events<{ choices: { delta: Message }[] }>(response)).map(
    ({ choices }) => choices[0]!.delta,
  );
}

// What the endpoint does with a text is the same on every driver.
describe.skipIf(smallestCaseOnly)("the embedded model", () => {
  beforeAll(async () => {
    engine = await openEngine();
    app = createApp(engine, { toolCallParser: "deepseekv3", reasoningParser: "deepseek-v3" });
  });

  afterAll(() => engine.close());

  test("calls get_weather, argument by argument, and goes on with the result", async () => {
    const body = ask("What is the weather in Paris in celsius?", { tools });
    const { message, finish_reason } = await complete(body);
    expect(finish_reason).toBe("tool_calls");
    expect(message).toMatchObject({
      content: null,
      tool_calls: [
        { function: { name: "get_weather", arguments: '{"city": "Paris", "unit": "celsius"}' } },
      ],
    });

    const streamed = (await deltas(body)).flatMap(({ tool_calls }) => tool_calls ?? []);
    const pieces = streamed.map((call) => call.function.arguments).filter((piece) => piece !== "");
    expect(streamed[0]!.function).toEqual({ name: "get_weather", arguments: "" });
    expect(pieces.join("")).toBe(message.tool_calls![0]!.function.arguments);
    expect(pieces.length).toBeGreaterThan(5);

    const result = { role: "tool", content: '{"temperature": 21, "condition": "sunny"}' };
    const history = [...body.messages, message, result];
    const said = (await complete({ ...body, messages: history })).message;
    expect(said).toMatchObject({ content: expect.stringContaining("21"), tool_calls: null });
  });

  test("calls two tools in one answer", async () => {
    const question = "What time is it in Tokyo? How is the weather in Rome in fahrenheit?";
    const { message } = await complete(ask(question, { tools }));
    expect(message.tool_calls!.map((call) => call.function)).toEqual([
      { name: "get_time", arguments: '{"city": "Tokyo"}' },
      { name: "get_weather", arguments: '{"city": "Rome", "unit": "fahrenheit"}' },
    ]);
  });

  test.each([{}, { chat_template_kwargs: { thinking: true } }])(
    "thinks apart from what it says, with %j",
    async (more) => {
      const body = ask("What is 12 + 35?", more);
      const { message } = await complete(body);
      expect(message.reasoning_content).toContain("12 + 35 = 47");
      expect(message.content).toBe("The answer is 47.");
      const streamed = await deltas(body);
      const join = (field: "content" | "reasoning_content") =>
        streamed.map((delta) => delta[field] ?? "").join("");
      expect(join("reasoning_content")).toBe(message.reasoning_content);
      expect(join("content")).toBe(message.content);
    },
  );

  test("calls what it must, with arguments that fit, at any temperature", async () => {
    const city = { enum: ["Paris", "Oslo"] };
    const strict = {
      name: "get_weather",
      strict: true,
      parameters: {
        type: "object",
        properties: { city, days: { type: "integer", minimum: 1, maximum: 9 } },
        required: ["city", "days"],
        additionalProperties: false,
      },
    };
    const body = (seed: number) => ({
      messages: [{ role: "user", content: "Tell me a story." }],
      tools: [{ type: "function", function: strict }, tools[1]],
      temperature: 1.5,
      seed,
      max_tokens: 300,
    });
    const one = { type: "function", function: { name: "get_weather" } };
    for (const more of [
      { tool_choice: "required" },
      { tool_choice: one, parallel_tool_calls: false },
    ]) {
      for (const seed of [1, 2, 3]) {
        const { message, finish_reason } = await complete({ ...body(seed), ...more });
        expect(message.content).toBeNull();
        if (finish_reason === "length") continue;
        expect(finish_reason).toBe("tool_calls");
        for (const { function: called } of message.tool_calls!) {
          const args = JSON.parse(called.arguments);
          if (called.name !== "get_weather") continue;
          expect(["Paris", "Oslo"]).toContain(args.city);
          expect([1, 2, 3, 4, 5, 6, 7, 8, 9]).toContain(args.days);
        }
        if (more.parallel_tool_calls === false) expect(message.tool_calls).toHaveLength(1);
      }
    }
  });

  test("answers in JSON, whether it thinks before that or not", async () => {
    const format = { response_format: { type: "json_object" }, max_tokens: 400, temperature: 1 };
    for (const seed of [1, 2, 3, 4]) {
      const body = { ...ask("Who are you?", format), seed };
      const { message, finish_reason } = await complete(body);
      if (finish_reason === "length") continue;
      expect(typeof JSON.parse(message.content!)).toBe("object");
    }
  });
});
