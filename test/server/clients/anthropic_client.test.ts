/** The unmodified `@anthropic-ai/sdk` client against `/v1/messages`, over a socket. */
import Anthropic from "@anthropic-ai/sdk";
import { jsonSchemaOutputFormat } from "@anthropic-ai/sdk/helpers/json-schema";
import { describe, expect, test } from "vitest";
import { DeviceError } from "../../../src/errors.ts";
import {
  asked,
  closeServers,
  messages,
  server,
  setUp,
  thrownBy,
} from "../../support/server/anthropic_client.ts";
import { until } from "../../support/until.ts";
import { randomPieces } from "../../text/cuts.ts";
import { writeCalls } from "../../text/tool_calls/written_calls.ts";

const schema = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
} as const;
const tools: Anthropic.Tool[] = [
  {
    name: "get_weather",
    description: "Tells the weather",
    input_schema: { ...schema, required: [...schema.required] },
  },
];
const PARIS = { city: "Paris" };
const called = () => ({
  pieces: [
    "Let me see.",
    ...randomPieces(writeCalls("deepseekv3", [{ name: "get_weather", args: PARIS }]), 4),
  ],
});
const forms = { toolCallParser: "deepseekv3", reasoningParser: "deepseek-r1" } as const;
const thoughts = () => ({ pieces: ["hm", "mm</think>", "\n\nHi", " you"] });

closeServers();

describe("a message", () => {
  test("has its text, its end and its usage", async () => {
    const { client, engine } = await setUp();
    const message = await client.messages.create({
      ...asked,
      system: [
        { type: "text", text: "Be" },
        { type: "text", text: "brief", cache_control: { type: "ephemeral" } },
      ],
      metadata: { user_id: "u" },
      // Newer types have left them out.
      ...{ temperature: 0.5, top_k: 4 },
    });
    expect(message).toEqual({
      id: expect.stringMatching(/^msg_[0-9a-f]{32}$/),
      type: "message",
      role: "assistant",
      model: "m",
      content: [{ type: "text", text: "hello", citations: null }],
      stop_reason: "end_turn",
      stop_sequence: null,
      usage: {
        input_tokens: 5,
        output_tokens: 6,
        cache_creation_input_tokens: null,
        cache_read_input_tokens: null,
      },
    });
    const [{ requestId, messages: turns, sampling }] = engine.requests as [
      (typeof engine.requests)[0] & object,
    ];
    expect(requestId).toBe(message.id);
    expect(turns).toEqual([{ role: "system", content: "Be\nbrief" }, ...messages]);
    expect(sampling).toMatchObject({ temperature: 0.5, topK: 4, maxNewTokens: 100 });
  });

  test("ends at its limit, and at its stop sequences", async () => {
    const { client, engine } = await setUp();
    const short = await client.messages.create({ ...asked, max_tokens: 2 });
    expect(short).toMatchObject({ stop_reason: "max_tokens", content: [{ text: "he" }] });
    await server.close();
    const finish = { type: "stop", matched: "X" } as const;
    const stopped = await setUp({ script: () => ({ pieces: ["a"], finish }) });
    const stop = await stopped.client.messages.create({ ...asked, stop_sequences: ["X", "Y"] });
    expect(stop).toMatchObject({ stop_reason: "stop_sequence", stop_sequence: "X" });
    expect(stopped.engine.requests[0]!.sampling!.stop).toEqual(["X", "Y"]);
    expect(engine.requests[0]!.continueFinalMessage).toBeUndefined();
  });

  test("goes on with what the assistant has begun", async () => {
    const { client, engine } = await setUp();
    const begun = [...messages, { role: "assistant" as const, content: "I am" }];
    await client.messages.create({ ...asked, messages: begun });
    expect(engine.requests[0]).toMatchObject({ continueFinalMessage: true, messages: begun });
  });

  test("has thoughts in a block of their own, which come back as history", async () => {
    const { client, engine } = await setUp({ ...forms, script: thoughts });
    const thinking = { type: "enabled", budget_tokens: 1024 } as const;
    const first = await client.messages.create({ ...asked, thinking });
    expect(first.content).toEqual([
      { type: "thinking", thinking: "hmmm", signature: first.id },
      { type: "text", text: "Hi you", citations: null },
    ]);
    expect(first.usage.output_tokens_details).toEqual({ thinking_tokens: 2 });
    expect(engine.requests[0]!.maxThinkingTokens).toBe(1024);
    const history = [
      ...messages,
      { role: "assistant" as const, content: first.content },
      ...messages,
    ];
    const display = { type: "adaptive", display: "omitted" } as const;
    const second = await client.messages.create({ ...asked, messages: history, thinking: display });
    expect(second.content[0]).toMatchObject({ type: "thinking", thinking: "" });
    expect(engine.requests[1]!.messages![1]).toEqual({
      role: "assistant",
      content: "Hi you",
      reasoning_content: "hmmm",
    });
  });

  test("is thought about as its request says, where the model has a switch", async () => {
    const model = { thinkingVariables: ["thinking", "reasoning_effort"] };
    const { client, engine } = await setUp({ ...forms, model });
    const off = { type: "disabled" } as const;
    await client.messages.create({ ...asked, thinking: off });
    const on = { type: "enabled", budget_tokens: 2000 } as const;
    await client.messages.create({ ...asked, thinking: on, output_config: { effort: "max" } });
    expect(engine.requests.map(({ templateVariables }) => templateVariables)).toEqual([
      { thinking: false },
      { thinking: true, reasoning_effort: "high" },
    ]);
  });

  test("fits its schema", async () => {
    const { client, engine } = await setUp({ script: () => ({ pieces: ['{"city": "Rome"}'] }) });
    const format = jsonSchemaOutputFormat(schema);
    const message = await client.messages.parse({ ...asked, output_config: { format } });
    expect(message.parsed_output).toEqual({ city: "Rome" });
    expect(engine.requests[0]!.sampling!.jsonSchema).toEqual(format.schema);
  });
});

describe("tools", () => {
  test("are called, and go on with their results", async () => {
    const { client, engine } = await setUp({ toolCallParser: "deepseekv3", script: called });
    const { content, stop_reason } = await client.messages.create({ ...asked, tools });
    expect(stop_reason).toBe("tool_use");
    const id = expect.stringMatching(/^call_[0-9a-f]{24}$/);
    expect(content).toEqual([
      { type: "text", text: "Let me see.", citations: null },
      { type: "tool_use", id, name: "get_weather", input: PARIS },
    ]);
    expect(engine.requests[0]!.tools).toEqual([
      {
        type: "function",
        function: { name: "get_weather", description: "Tells the weather", parameters: schema },
      },
    ]);
    const call = content[1] as Anthropic.ToolUseBlock;
    const results: Anthropic.ContentBlockParam[] = [
      { type: "tool_result", tool_use_id: call.id, content: "rain", is_error: true },
      { type: "text", text: "And" },
      { type: "text", text: "now?" },
    ];
    const history: Anthropic.MessageParam[] = [
      ...messages,
      { role: "assistant", content },
      { role: "user", content: results },
    ];
    await client.messages.create({ ...asked, tools, messages: history });
    expect(engine.requests[1]!.messages!.slice(1)).toEqual([
      {
        role: "assistant",
        content: "Let me see.",
        tool_calls: [
          {
            id: call.id,
            type: "function",
            function: { name: "get_weather", arguments: '{"city":"Paris"}' },
          },
        ],
      },
      { role: "tool", content: "Error: rain", tool_call_id: call.id },
      { role: "user", content: "And\nnow?" },
    ]);
  });

  test.each([
    [{ type: "any" }, { required: true, parallel: true }],
    [
      { type: "tool", name: "get_weather" },
      { required: true, parallel: true },
    ],
    [
      { type: "auto", disable_parallel_tool_use: true },
      { required: false, parallel: false },
    ],
  ] as const)("are enforced by %j", async (tool_choice, wanted) => {
    const { client, engine } = await setUp({ toolCallParser: "deepseekv3" });
    await client.messages.create({ ...asked, tools, tool_choice });
    expect(JSON.parse(engine.requests[0]!.constraint!.source)).toMatchObject(wanted);
  });

  test("are not told of by the choice none", async () => {
    const { client, engine } = await setUp();
    await client.messages.create({ ...asked, tools, tool_choice: { type: "none" } });
    expect(engine.requests[0]!.tools).toBeUndefined();
  });

  test("whose call the limit has cut off have an empty input", async () => {
    const { pieces } = called();
    const finish = { type: "length", length: 3 } as const;
    const script = () => ({ pieces: pieces.slice(0, -3), finish });
    const { client } = await setUp({ toolCallParser: "deepseekv3", script });
    const { content, stop_reason } = await client.messages.create({ ...asked, tools });
    expect(stop_reason).toBe("max_tokens");
    expect(content.at(-1)).toMatchObject({ type: "tool_use", input: {} });
  });
});

describe("a stream", () => {
  test("has these events, in this order", async () => {
    await setUp({
      ...forms,
      script: () => ({ pieces: ["hm</think>", "Hi", ...called().pieces.slice(1)] }),
    });
    const body = JSON.stringify({ ...asked, tools, stream: true });
    const headers = { "content-type": "application/json" };
    const response = await fetch(`${server.url}/v1/messages`, { method: "POST", headers, body });
    expect(response.headers.get("content-type")).toBe("text/event-stream");
    const frames = (await response.text()).split("\n\n");
    expect(frames.pop()).toBe("");
    const events = frames.map((frame) => {
      const [, name, json] = /^event: (\w+)\ndata: (.*)$/.exec(frame)!;
      const data = JSON.parse(json!) as { type: string; index?: number; delta?: { type?: string } };
      expect(data.type).toBe(name);
      return [name, data.index, data.delta?.type].filter((part) => part !== undefined).join(" ");
    });
    // Pieces of a call come as they come.
    expect(events.filter((event, i) => event !== events[i - 1])).toEqual([
      "message_start",
      "ping",
      "content_block_start 0",
      "content_block_delta 0 thinking_delta",
      "content_block_delta 0 signature_delta",
      "content_block_stop 0",
      "content_block_start 1",
      "content_block_delta 1 text_delta",
      "content_block_stop 1",
      "content_block_start 2",
      "content_block_delta 2 input_json_delta",
      "content_block_stop 2",
      "message_delta",
      "message_stop",
    ]);
  });

  test("comes to the message that it is as a whole", async () => {
    const { client } = await setUp({
      ...forms,
      cacheReport: true,
      script: () => ({ pieces: ["hm</think>", ...called().pieces] }),
    });
    const whole = await client.messages.create({ ...asked, tools });
    const stream = client.messages.stream({ ...asked, tools });
    const texts: string[] = [];
    stream.on("text", (text) => texts.push(text));
    const { id: _, content, ...streamed } = await stream.finalMessage();
    expect(texts.join("")).toBe("Let me see.");
    const idless = (blocks: readonly object[]) =>
      blocks.map((block) => ({ ...block, id: null, signature: null }));
    expect(idless(content)).toEqual(idless(whole.content));
    const { id: __, content: ___, ...rest } = whole;
    expect(streamed).toMatchObject(rest);
    expect(rest.usage).toMatchObject({
      cache_read_input_tokens: 0,
      cache_creation_input_tokens: 0,
    });
  });

  test("that its client leaves ends its generation", async () => {
    const gate = (chunk: number) => (chunk < 2 ? Promise.resolve() : new Promise<void>(() => {}));
    const { client, engine } = await setUp({
      script: () => ({ pieces: ["one", "two", "three"], gate }),
    });
    const stream = client.messages.stream(asked);
    stream.on("text", () => stream.abort());
    await expect(stream.finalMessage()).rejects.toThrow(Anthropic.APIUserAbortError);
    await until(() => expect(engine.cutShort).toHaveLength(1));
    expect(engine.running).toEqual([]);
  });

  test("that fails says so in the middle", async () => {
    const failure = { at: 2, error: new DeviceError("The GPU was lost") };
    const { client } = await setUp({
      script: () => ({ pieces: ["one", "two", "three"], failure }),
    });
    const stream = client.messages.stream(asked);
    const error = await thrownBy(stream.finalMessage());
    expect(error.type).toBe("api_error");
    expect(error.message).toContain("The GPU was lost");
  });
});

describe("tokens", () => {
  test("are counted as a message would have them", async () => {
    const { client, engine } = await setUp();
    const system = "Be brief";
    const counted = await client.messages.countTokens({ model: "m", messages, system, tools });
    expect(counted).toEqual({ input_tokens: 5 });
    await client.messages.create({ ...asked, system, tools });
    const { messages: turns, tools: shown } = engine.requests[0]!;
    expect(engine.tokenized).toEqual([
      { messages: turns, tools: shown, client: expect.any(String) },
    ]);
  });
});
