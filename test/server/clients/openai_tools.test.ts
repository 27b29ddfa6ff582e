/** Tools of the unmodified `openai` client against the app, without a socket. */

import OpenAI from "openai";
import type { RunnableToolFunctionWithParse } from "openai/lib/RunnableFunction";
import { describe, expect, test } from "vitest";
import { textOf } from "../../../src/chat_message.ts";
import { createApp } from "../../../src/server/app.ts";
import {
  TOOL_CALL_PARSERS,
  type ToolCallParserName,
} from "../../../src/text/tool_calls/formats.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { randomPieces } from "../../text/cuts.ts";
import { writeCalls } from "../../text/tool_calls/written_calls.ts";

const ARGUMENTS = { city: "Paris", days: [1, 2] };
const messages = [{ role: "user" as const, content: "How is the weather?" }];
const tools: OpenAI.ChatCompletionFunctionTool[] = [
  {
    type: "function",
    function: {
      name: "get_weather",
      description: "Tells the weather",
      parameters: { type: "object", properties: { city: { type: "string" } } },
    },
  },
];

/** A model that calls the tool, and says what came back. */
function setUp(toolCallParser: ToolCallParserName) {
  const text = writeCalls(toolCallParser, [{ name: "get_weather", args: ARGUMENTS }]);
  const engine = new ScriptedEngine({
    script: ({ messages: asked }) =>
      asked!.at(-1)!.role === "tool"
        ? { pieces: ["It is ", textOf(asked!.at(-1)!.content)] }
        : { pieces: randomPieces(text, 4) },
  });
  const app = createApp(engine, { toolCallParser });
  const client = new OpenAI({
    apiKey: "none",
    baseURL: "http://wisp.test/v1",
    maxRetries: 0,
    fetch: async (input, init) => app.request(input as string, init),
  });
  return { engine, client };
}

describe.each(TOOL_CALL_PARSERS)("openai client, %s", (parser) => {
  test("reads a call", async () => {
    const { client } = setUp(parser);
    const completion = await client.chat.completions.create({ model: "m", messages, tools });
    const { message, finish_reason } = completion.choices[0]!;
    expect(finish_reason).toBe("tool_calls");
    const [call] = message.tool_calls!;
    expect(call!.type === "function" && JSON.parse(call!.function.arguments)).toEqual(ARGUMENTS);
  });

  test("collects a streamed call", async () => {
    const { client } = setUp(parser);
    const runner = client.chat.completions.stream({ model: "m", messages, tools });
    const deltas: string[] = [];
    runner.on("tool_calls.function.arguments.delta", (event) => deltas.push(event.arguments_delta));
    const { choices } = await runner.finalChatCompletion();
    const { message, finish_reason } = choices[0]!;
    expect(finish_reason).toBe("tool_calls");
    expect(message.content).toBeFalsy();
    expect(message.tool_calls).toMatchObject([
      { id: expect.stringMatching(/^call_[0-9a-f]{24}$/), function: { name: "get_weather" } },
    ]);
    const call = message.tool_calls![0]!;
    expect(call.type === "function" && JSON.parse(call.function.arguments)).toEqual(ARGUMENTS);
    expect(deltas.filter((delta) => delta !== "").length).toBeGreaterThan(3);
  });

  test("runs the tool and goes on with its result", async () => {
    const { client, engine } = setUp(parser);
    const asked: object[] = [];
    const tool: RunnableToolFunctionWithParse<object> = {
      type: "function",
      function: {
        name: "get_weather",
        description: "Tells the weather",
        parameters: { type: "object" },
        parse: (text) => JSON.parse(text) as object,
        function: (args) => {
          asked.push(args);
          return "sunny";
        },
      },
    };
    const request = { model: "m", messages, stream: true as const, tools: [tool] };
    const runner = client.chat.completions.runTools(request);
    expect(await runner.finalContent()).toBe("It is sunny");
    expect(asked).toEqual([ARGUMENTS]);
    const history = engine.requests[1]!.messages!;
    expect(history.map(({ role }) => role)).toEqual(["user", "assistant", "tool"]);
    expect(history[2]!.tool_call_id).toBe(history[1]!.tool_calls![0]!.id);
  });
});
