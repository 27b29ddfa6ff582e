/** The unmodified `openai` client against `/v1/responses`, over a socket. */
import OpenAI from "openai";
import { describe, expect, test } from "vitest";
import { DeviceError } from "../../../src/errors.ts";
import {
  asked,
  closeServers,
  server,
  setUp,
  thrownBy,
} from "../../support/server/responses_client.ts";
import { until } from "../../support/until.ts";
import { randomPieces } from "../../text/cuts.ts";
import { writeCalls } from "../../text/tool_calls/written_calls.ts";

const schema = {
  type: "object",
  properties: { city: { type: "string" } },
  required: ["city"],
  additionalProperties: false,
};
const tools: OpenAI.Responses.FunctionTool[] = [
  { type: "function", name: "get_weather", parameters: schema, strict: null },
];
const forms = { toolCallParser: "deepseekv3", reasoningParser: "deepseek-r1" } as const;
const CALL = randomPieces(
  writeCalls("deepseekv3", [{ name: "get_weather", args: { city: "Paris" } }]),
  4,
);
/** Beginnings of a call, and what they have of its arguments. */
const CUT_CALLS = [
  ["qwen25", '<tool_call>\n{"name": "get_weather", "arguments": {"city": "Pa', '{"city": "Pa'],
  ["llama3", '{"name": "get_weather", "parameters": {"city": "Pa', '{"city": "Pa'],
  ["mistral", '[TOOL_CALLS] [{"name": "get_weather", "arguments": {"city": "Pa', '{"city": "Pa'],
  ["deepseekv3", CALL.join("").slice(0, CALL.join("").indexOf("{")), "{}"],
] as const;
const answered = () => ({ pieces: ["hm", "mm</think>", "Let me see.", ...CALL] });

closeServers();

describe("a response", () => {
  test("has its text, its usage and what was asked for", async () => {
    const { client, engine } = await setUp();
    const response = await client.responses.create({
      ...asked,
      instructions: "Be brief",
      max_output_tokens: 9,
      temperature: 0.5,
      metadata: { a: "b" },
      reasoning: { effort: "low", summary: "auto" },
      include: ["reasoning.encrypted_content"],
    });
    expect(response.output_text).toBe("hello");
    expect(response).toMatchObject({
      id: expect.stringMatching(/^resp_[0-9a-f]{32}$/),
      object: "response",
      status: "completed",
      error: null,
      incomplete_details: null,
      model: "m",
      instructions: "Be brief",
      max_output_tokens: 9,
      temperature: 0.5,
      reasoning: { effort: "low", summary: null },
      top_p: 1,
      metadata: { a: "b" },
      store: true,
      output: [{ type: "message", role: "assistant", status: "completed" }],
      usage: {
        input_tokens: 5,
        input_tokens_details: { cached_tokens: 0 },
        output_tokens: 6,
        output_tokens_details: { reasoning_tokens: 0 },
        total_tokens: 11,
      },
    });
    const [request] = engine.requests;
    expect(request!.requestId).toBe(response.id);
    expect(request!.messages).toEqual([
      { role: "system", content: "Be brief" },
      { role: "user", content: "hello" },
    ]);
    expect(request!.sampling).toMatchObject({ maxNewTokens: 9, temperature: 0.5 });
  });

  test("repeats no more than is acted on, or than may be repeated", async () => {
    const { client } = await setUp();
    const summary = ["x".repeat(50_000)] as unknown as "auto";
    const response = await client.responses.create({ ...asked, reasoning: { summary } });
    expect(response.reasoning).toEqual({ effort: null, summary: null });
    const verbosity = "x".repeat(2 ** 20) as "low";
    const error = await thrownBy(client.responses.create({ ...asked, text: { verbosity } }));
    expect(error).toMatchObject({ status: 400, param: "text" });
    expect(error.message).toContain("1048576 characters of JSON");
  });

  test("that its limit ends is incomplete", async () => {
    const { client } = await setUp();
    const response = await client.responses.create({ ...asked, max_output_tokens: 2 });
    expect(response).toMatchObject({
      status: "incomplete",
      incomplete_details: { reason: "max_output_tokens" },
      output: [{ status: "incomplete" }],
    });
  });

  test("fits its schema", async () => {
    const { client, engine } = await setUp(() => ({ pieces: ['{"city": "Rome"}'] }));
    const format = { type: "json_schema", name: "place", schema, strict: true } as const;
    const response = await client.responses.parse({ ...asked, text: { format, verbosity: "low" } });
    expect(response.output_parsed).toEqual({ city: "Rome" });
    expect(engine.requests[0]!.sampling!.jsonSchema).toEqual(schema);
    await client.responses.create({ ...asked, text: { format: { type: "json_object" } } });
    expect(engine.requests[1]!.sampling!.jsonSchema).toEqual({ type: "object" });
  });

  test("has thoughts and calls as items, which come back as history", async () => {
    const { client, engine } = await setUp(answered, forms);
    const reasoning = { max_tokens: 7 } as OpenAI.Reasoning;
    const response = await client.responses.create({ ...asked, tools, reasoning });
    expect(response.output).toEqual([
      {
        id: expect.stringMatching(/^rs_/),
        type: "reasoning",
        status: "completed",
        summary: [],
        content: [{ type: "reasoning_text", text: "hmmm" }],
      },
      {
        id: expect.stringMatching(/^msg_/),
        type: "message",
        status: "completed",
        role: "assistant",
        content: [{ type: "output_text", text: "Let me see.", annotations: [], logprobs: [] }],
      },
      {
        id: expect.stringMatching(/^fc_/),
        type: "function_call",
        status: "completed",
        call_id: expect.stringMatching(/^call_/),
        name: "get_weather",
        arguments: '{"city": "Paris"}',
      },
    ]);
    expect(response.usage!.output_tokens_details.reasoning_tokens).toBe(2);
    expect(engine.requests[0]!.maxThinkingTokens).toBe(7);
    const { call_id } = response.output[2] as OpenAI.Responses.ResponseFunctionToolCall;
    const result = { type: "function_call_output", call_id, output: "rain" } as const;
    const input = [{ role: "user", content: "hello" } as const, ...response.output, result];
    await client.responses.create({
      ...asked,
      tools,
      input: input as OpenAI.Responses.ResponseInput,
    });
    const history = [
      { role: "user", content: "hello" },
      {
        role: "assistant",
        content: "Let me see.",
        reasoning_content: "hmmm",
        tool_calls: [
          {
            id: call_id,
            type: "function",
            function: { name: "get_weather", arguments: '{"city": "Paris"}' },
          },
        ],
      },
      { role: "tool", content: "rain", tool_call_id: call_id },
    ];
    expect(engine.requests[1]!.messages).toEqual(history);
    // What the server has kept of it says the same.
    await client.responses.create({
      ...asked,
      tools,
      previous_response_id: response.id,
      input: [result],
    });
    expect(engine.requests[2]!.messages).toEqual(history);
  });

  test.each([
    ["required", { required: true, parallel: true }],
    [
      { type: "function", name: "get_weather" },
      { required: true, parallel: true },
    ],
  ] as const)("calls what %j asks for", async (tool_choice, wanted) => {
    const { client, engine } = await setUp(undefined, forms);
    await client.responses.create({ ...asked, tools, tool_choice });
    expect(JSON.parse(engine.requests[0]!.constraint!.source)).toMatchObject(wanted);
  });
});

describe.each(CUT_CALLS)("a call of %s that the limit cuts off", (toolCallParser, text, args) => {
  const finish = { type: "length", length: 9 } as const;
  const script = () => ({ pieces: randomPieces(text, 4), finish });
  const item = { type: "function_call", status: "incomplete", arguments: args };

  test("is incomplete, and so it is told", async () => {
    const { client, engine } = await setUp(script, { toolCallParser });
    const whole = await client.responses.create({ ...asked, tools });
    expect(whole).toMatchObject({ status: "incomplete", output: [item] });
    const events: OpenAI.Responses.ResponseStreamEvent[] = [];
    const stream = await client.responses.create({ ...asked, tools, stream: true });
    for await (const event of stream) events.push(event);
    const names = events.map(({ type }) => type);
    expect(names).not.toContain("response.function_call_arguments.done");
    expect(events.slice(-2)).toMatchObject([
      { type: "response.output_item.done", item },
      { type: "response.incomplete", response: { status: "incomplete", output: [item] } },
    ]);
    // Its arguments are none that a chat template could read.
    await client.responses.create({ ...asked, tools, previous_response_id: whole.id });
    expect(engine.requests.at(-1)!.messages![1]).toEqual({ role: "assistant", content: "" });
  });
});

describe("a response that is kept", () => {
  test("is found, gone on from without its instructions, and deleted", async () => {
    const { client, engine } = await setUp();
    const first = await client.responses.create({ ...asked, instructions: "Be brief" });
    const { output_text: _, ...kept } = await client.responses.retrieve(first.id);
    expect(first).toMatchObject(kept);
    const previous_response_id = first.id;
    const second = await client.responses.create({
      ...asked,
      input: "again",
      previous_response_id,
    });
    expect(second.previous_response_id).toBe(first.id);
    expect(engine.requests[1]!.messages).toEqual([
      { role: "user", content: "hello" },
      { role: "assistant", content: "hello" },
      { role: "user", content: "again" },
    ]);
    await client.responses.delete(first.id);
    const gone = await thrownBy(client.responses.retrieve(first.id));
    expect(gone).toBeInstanceOf(OpenAI.NotFoundError);
    const lost = await thrownBy(client.responses.create({ ...asked, previous_response_id }));
    expect(lost).toMatchObject({ status: 400, param: "previous_response_id" });
    // The one behind it has all of the conversation.
    await client.responses.create({ ...asked, previous_response_id: second.id });
    expect(engine.requests[2]!.messages).toHaveLength(5);
  });

  test("is one that was not asked not to be", async () => {
    const { client } = await setUp();
    const { id } = await client.responses.create({ ...asked, store: false });
    expect((await thrownBy(client.responses.retrieve(id))).status).toBe(404);
  });
});

describe("a stream", () => {
  test("has these events, numbered", async () => {
    const { client } = await setUp(answered, forms);
    const events: OpenAI.Responses.ResponseStreamEvent[] = [];
    const stream = await client.responses.create({ ...asked, tools, stream: true });
    for await (const event of stream) events.push(event);
    expect(events.map(({ sequence_number }) => sequence_number)).toEqual([...events.keys()]);
    const names = events.map((event) =>
      `${event.type} ${"output_index" in event ? event.output_index : ""}`.trim(),
    );
    expect(names.filter((name, i) => name !== names[i - 1])).toEqual([
      "response.created",
      "response.in_progress",
      "response.output_item.added 0",
      "response.content_part.added 0",
      "response.reasoning_text.delta 0",
      "response.reasoning_text.done 0",
      "response.content_part.done 0",
      "response.output_item.done 0",
      "response.output_item.added 1",
      "response.content_part.added 1",
      "response.output_text.delta 1",
      "response.output_text.done 1",
      "response.content_part.done 1",
      "response.output_item.done 1",
      "response.output_item.added 2",
      "response.function_call_arguments.delta 2",
      "response.function_call_arguments.done 2",
      "response.output_item.done 2",
      "response.completed",
    ]);
    const raw = await fetch(`${server.url}/v1/responses`, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: JSON.stringify({ ...asked, stream: true }),
    });
    expect(await raw.text()).toMatch(
      /^event: response\.created\ndata: \{"type":"response\.created","sequence_number":0,/,
    );
  });

  test("comes to the response that it is as a whole, and that is kept", async () => {
    const { client } = await setUp(answered, forms);
    const whole = await client.responses.create({ ...asked, tools });
    const stream = client.responses.stream({ ...asked, tools });
    const deltas: string[] = [];
    stream.on("response.output_text.delta", ({ delta }) => deltas.push(delta));
    const final = await stream.finalResponse();
    expect(deltas.join("")).toBe("Let me see.");
    expect(final.output_text).toBe(whole.output_text);
    const idless = (output: readonly object[]) =>
      output.map((item) => ({ ...item, id: null, call_id: null }));
    expect(idless(final.output)).toMatchObject(idless(whole.output));
    expect(final.usage).toEqual(whole.usage);
    const kept = await client.responses.retrieve(final.id);
    expect(kept.output).toMatchObject(final.output.map(({ id, type }) => ({ id, type })));
  });

  test("that is aborted ends as one that is incomplete", async () => {
    const { client } = await setUp(() => ({
      pieces: ["one"],
      finish: { type: "abort", message: "gone" },
    }));
    let last: OpenAI.Responses.ResponseStreamEvent | undefined;
    for await (const event of await client.responses.create({ ...asked, stream: true }))
      last = event;
    expect(last).toMatchObject({
      type: "response.incomplete",
      response: { status: "incomplete", incomplete_details: null },
    });
  });

  test("that its client leaves ends its generation, and is not kept", async () => {
    const gate = (chunk: number) => (chunk < 2 ? Promise.resolve() : new Promise<void>(() => {}));
    const { client, engine } = await setUp(() => ({ pieces: ["one", "two", "three"], gate }));
    const stream = client.responses.stream(asked);
    stream.on("response.output_text.delta", () => stream.abort());
    await expect(stream.finalResponse()).rejects.toThrow(OpenAI.APIUserAbortError);
    await until(() => expect(engine.cutShort).toHaveLength(1));
    expect((await thrownBy(client.responses.retrieve(engine.cutShort[0]!))).status).toBe(404);
  });

  test("that fails says so in its last event", async () => {
    const failure = { at: 2, error: new DeviceError("The GPU was lost") };
    const { client } = await setUp(() => ({ pieces: ["one", "two", "three"], failure }));
    let last: OpenAI.Responses.ResponseStreamEvent | undefined;
    for await (const event of await client.responses.create({ ...asked, stream: true }))
      last = event;
    expect(last).toMatchObject({
      type: "response.failed",
      response: { status: "failed", error: { code: "server_error", message: "The GPU was lost" } },
    });
  });
});

test("a thought is its text, else its summary", async () => {
  const told: string[] = [];
  const { client, engine } = await setUp(undefined, { onIdleField: (name) => told.push(name) });
  const summary = [{ type: "summary_text", text: "short" }];
  const content = [{ type: "reasoning_text", text: "long" }];
  const thoughts = [{ summary }, { summary, content }].flatMap((thought) => [
    { type: "reasoning", id: "x", ...thought },
    { role: "assistant", content: "a" },
  ]);
  const input = [...thoughts, { role: "user", content: "b" }] as OpenAI.Responses.ResponseInput;
  await client.responses.create({ ...asked, input });
  expect(engine.requests[0]!.messages).toMatchObject([
    { reasoning_content: "short" },
    { reasoning_content: "long" },
    { role: "user" },
  ]);
  expect(told).toContain("summary");
});
