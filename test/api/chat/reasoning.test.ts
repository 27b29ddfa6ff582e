/** Reasoning apart from content: fields `separate_reasoning` and `stream_reasoning`, and their endpoint. */
import { describe, expect, test } from "vitest";
import { type AppOptions, createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { answer, errorMessage, events, post } from "../../support/server/http_client.ts";
import { randomPieces } from "../../text/cuts.ts";

const PATH = "/v1/chat/completions";
const MESSAGES = [{ role: "user", content: "What is 2 + 2?" }];
const THOUGHT = "<think>\nTwo and two.\n</think>\n\nFour.";

interface Message {
  readonly content: string | null;
  readonly reasoning_content: string | null;
}

const r1 = { reasoningParser: "deepseek-r1" } as const;

function app(pieces: readonly string[], options: AppOptions) {
  return createApp(new ScriptedEngine({ script: () => ({ pieces }) }), options);
}

/** Reasoning and content. */
async function complete(text: string, body: object = {}, options: AppOptions = r1) {
  const response = await post(app([text], options), PATH, { messages: MESSAGES, ...body });
  expect(response.status).toBe(200);
  const { choices } = await answer<{ choices: { message: Message }[] }>(response);
  return [choices[0]!.message.reasoning_content, choices[0]!.message.content];
}

async function stream(pieces: readonly string[], body: object = {}, options: AppOptions = r1) {
  const request = { messages: MESSAGES, stream: true, ...body };
  const response = await post(app(pieces, options), PATH, request);
  const told = await events<{ choices: { delta: Message }[] }>(response);
  return told.map(({ choices }) => choices[0]!.delta);
}

test.each<[string, string, (string | null)[], object, AppOptions]>([
  ["both parts", THOUGHT, ["Two and two.\n", "Four."], {}, r1],
  ["a prompt that begins the thinking", "Hm.\n</think>\n\nFour.", ["Hm.\n", "Four."], {}, r1],
  ["thinking that the limit cuts off", "<think>\nTwo", ["Two", null], {}, r1],
  ["no thinking", "Four.", [null, "Four."], {}, { reasoningParser: "qwen3" }],
  ["tags where no parser looks for them", THOUGHT, [null, THOUGHT], {}, {}],
  ["tags that are wanted", THOUGHT, [null, THOUGHT], { separate_reasoning: false }, r1],
  [
    "thinking that the prompt begins because the request asks for it",
    "Hm.</think>Four.",
    ["Hm.", "Four."],
    { chat_template_kwargs: { thinking: true } },
    { reasoningParser: "deepseek-v3" },
  ],
  [
    "thinking that the request did not ask for",
    "Hm.</think>Four.",
    [null, "Hm.</think>Four."],
    { chat_template_kwargs: { thinking: false } },
    { reasoningParser: "deepseek-v3" },
  ],
])("%s", async (_, text, expected, body, options) => {
  expect(await complete(text, body, options)).toEqual(expected);
  for (let seed = 1; seed <= 5; seed++) {
    const deltas = await stream(randomPieces(text, seed), body, options);
    const reasoning = deltas.map((delta) => delta.reasoning_content ?? "").join("");
    const content = deltas.map((delta) => delta.content ?? "").join("");
    expect([reasoning || null, content || null]).toEqual(expected);
  }
});

test("an answer that goes on with the last message goes on with its thinking", async () => {
  const goOn = (content: string) => ({
    messages: [...MESSAGES, { role: "assistant", content }],
    continue_final_message: true,
  });
  expect(await complete("and two.</think>Four.", goOn("<think>Two "))).toEqual([
    "and two.",
    "Four.",
  ]);
  expect(await complete("ur.", goOn("<think>Two and two.</think>Fo"))).toEqual([null, "ur."]);
});

test("a stream tells reasoning first, each token's with the token", async () => {
  const deltas = await stream(["<think>", "\n", "Two", " and", "</think>", "\n\n", "Fo", "ur"]);
  const told = deltas.map((delta) => [delta.reasoning_content, delta.content]);
  expect(told).toEqual([
    [null, ""],
    ["Two", null],
    [" and", null],
    [null, "Fo"],
    [null, "ur"],
    [null, null],
  ]);
});

test("stream_reasoning false tells reasoning at once, before the content", async () => {
  const pieces = randomPieces(THOUGHT, 2);
  const deltas = await stream(pieces, { stream_reasoning: false });
  const told = deltas.flatMap((delta) => delta.reasoning_content ?? delta.content ?? []);
  expect(told.slice(0, 2)).toEqual(["", "Two and two.\n"]);
  expect(told.slice(2).join("")).toBe("Four.");
  const cut = await stream(["Two", " and"], { stream_reasoning: false });
  expect(cut.flatMap((delta) => delta.reasoning_content ?? [])).toEqual(["Two and"]);
});

test("calls come behind the reasoning, and nothing else remains", async () => {
  const options: AppOptions = { reasoningParser: "qwen3", toolCallParser: "qwen25" };
  const body = { tools: [{ type: "function", function: { name: "now" } }] };
  const text = '<think>\nHm.\n</think>\n\n<tool_call>\n{"name": "now"}\n</tool_call>';
  expect(await complete(text, body, options)).toEqual(["Hm.\n", null]);
});

test("the marks of gpt-oss are asked for and not shown", async () => {
  const engine = new ScriptedEngine({
    script: () => ({
      pieces: ["<|channel|>analysis<|message|>Hm.<|end|>", "<|channel|>final<|message|>Four."],
    }),
  });
  const server = createApp(engine, { reasoningParser: "gpt-oss" });
  const response = await post(server, PATH, { messages: MESSAGES });
  expect(await answer(response)).toMatchObject({
    choices: [{ message: { reasoning_content: "Hm.", content: "Four." } }],
  });
  expect(engine.requests[0]!.sampling!.shownSpecialTokens).toContain("<|message|>");
});

describe("usage tells the tokens of reasoning", () => {
  const analysis = ["<|channel|>analysis<|message|>", "Hm", ".", "<|end|>"];
  const final = ["<|start|>assistant", "<|channel|>final<|message|>", "Four", ".<|return|>"];

  test.each<[string, string[], number, object, AppOptions]>([
    ["with both tags", ["<think>", "Two", ".", "</think>", "\n\n", "Four"], 4, {}, r1],
    ["of a tag in pieces", ["Two", ".", "</th", "ink>", "\n\n", "Four"], 4, {}, r1],
    ["that the limit cuts off", ["Two", " and"], 3, {}, r1],
    ["none", ["Four", "."], 0, {}, { reasoningParser: "qwen3" }],
    ["that stay content", ["Two", "</think>", "Four"], 2, { separate_reasoning: false }, r1],
    ["that come at once", ["Two", "</think>", "Four"], 2, { stream_reasoning: false }, r1],
    ["of gpt-oss", [...analysis, ...final], 4, {}, { reasoningParser: "gpt-oss" }],
    ["of two analyses", [...analysis, ...analysis], 8, {}, { reasoningParser: "gpt-oss" }],
  ])("%s", async (_, pieces, count, body, options) => {
    const request = { messages: MESSAGES, ...body };
    const wanted = {
      reasoning_tokens: count,
      completion_tokens_details: { reasoning_tokens: count },
    };
    const whole = await post(app(pieces, options), PATH, request);
    expect((await answer<{ usage: object }>(whole)).usage).toMatchObject(wanted);
    const streaming = { ...request, stream: true, stream_options: { include_usage: true } };
    const streamed = await events<{ usage: object }>(
      await post(app(pieces, options), PATH, streaming),
    );
    expect(streamed.at(-1)!.usage).toMatchObject(wanted);
  });

  test("of all choices together", async () => {
    const request = { messages: MESSAGES, n: 3 };
    const response = await post(app(["Two", "</think>", "Four"], r1), PATH, request);
    expect(await answer(response)).toMatchObject({ usage: { reasoning_tokens: 6 } });
  });

  test("not where no parser looks for them", async () => {
    const response = await post(app([THOUGHT], {}), PATH, { messages: MESSAGES });
    const { usage } = await answer<{ usage: object }>(response);
    expect(usage).toMatchObject({ reasoning_tokens: 0 });
    expect(usage).not.toHaveProperty("completion_tokens_details");
  });
});

test("parsers of different kinds of models are refused when the app is made", () => {
  const options: AppOptions = { toolCallParser: "qwen25", reasoningParser: "gpt-oss" };
  expect(() => app([], options)).toThrow("gpt-oss goes with gpt-oss only");
});

describe("POST /separate_reasoning", () => {
  const separate = (body: object, options: AppOptions = {}) =>
    post(app([], options), "/separate_reasoning", body);

  test.each([
    [THOUGHT, "deepseek-r1", { reasoning_text: "Two and two.\n", text: "Four." }],
    ["Four.", "qwen3", { reasoning_text: "", text: "Four." }],
    ["Hm", "deepseek-r1", { reasoning_text: "Hm", text: "" }],
  ])("%j of %s", async (text, reasoning_parser, expected) => {
    expect(await answer(await separate({ text, reasoning_parser }))).toEqual(expected);
    const { text: own } = await answer<{ text: string }>(await separate({ text }, r1));
    expect(own).toBe(text === THOUGHT ? "Four." : "");
  });

  test.each([
    [{ reasoning_parser: "qwen3" }, "text must be a string, got nothing"],
    [{ text: "x" }, "Cannot parse without reasoning_parser"],
    [{ text: "x", reasoning_parser: "x" }, "reasoning_parser must be one of deepseek-r1, "],
    [{ text: "x", reasoning_parser: "qwen3", a: 1 }, "Cannot use a: it is not a known field"],
  ])("with %j is refused", async (body, message) => {
    const response = await separate(body);
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain(message);
  });
});
