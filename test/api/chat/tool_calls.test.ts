/** Sections 2.3 to 2.5 and 4.2 of the specification: tools of a chat and the calls of its answer. */
import { describe, expect, test } from "vitest";
import { type AppOptions, createApp } from "../../../src/server/app.ts";
import {
  TOOL_CALL_PARSERS,
  type ToolCallParserName,
} from "../../../src/text/tool_calls/formats.ts";
import { type Script, ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { answer, errorMessage, events, post } from "../../support/server/http_client.ts";
import { randomPieces } from "../../text/cuts.ts";
import { type Call, writeCalls } from "../../text/tool_calls/written_calls.ts";

const PATH = "/v1/chat/completions";
const MESSAGES = [{ role: "user", content: "How is the weather?" }];
const PARAMETERS = { type: "object", properties: { city: { type: "string" } } };
const TOOL = {
  type: "function",
  function: { name: "get_weather", description: "Tells the weather", parameters: PARAMETERS },
};
const TOOLS = [TOOL, { type: "function", function: { name: "now" } }];
const PARIS: Call = { name: "get_weather", args: { city: "Paris" } };
const NOW: Call = { name: "now", args: {} };

interface WireCall {
  readonly id: string | null;
  readonly index: number;
  readonly type: string;
  readonly function: { readonly name: string | null; readonly arguments: string };
}

interface Message {
  readonly role: string;
  readonly content: string | null;
  readonly tool_calls: readonly WireCall[] | null;
}

interface Choice {
  readonly index: number;
  readonly message: Message;
  readonly finish_reason: string;
  readonly matched_stop: unknown;
}

interface StreamEvent {
  readonly choices: readonly (Omit<Choice, "message"> & { readonly delta: Message })[];
}

function server(script: Script, options: AppOptions) {
  const engine = new ScriptedEngine({ script: () => script });
  return { engine, app: createApp(engine, options) };
}

const deepseek = { toolCallParser: "deepseekv3" } as const;

async function complete(script: Script, body: object = {}, options: AppOptions = deepseek) {
  const { app } = server(script, options);
  const response = await post(app, PATH, { messages: MESSAGES, tools: TOOLS, ...body });
  expect(response.status).toBe(200);
  return (await answer<{ choices: Choice[] }>(response)).choices;
}

async function stream(script: Script, body: object = {}, options: AppOptions = deepseek) {
  const { app } = server(script, options);
  const request = { messages: MESSAGES, tools: TOOLS, stream: true, ...body };
  const told = await events<StreamEvent>(await post(app, PATH, request));
  return told.flatMap(({ choices }) => choices);
}

describe("a whole answer", () => {
  test("that is one call has it, no content, and its own reason to finish", async () => {
    const [choice] = await complete({ pieces: [writeCalls("deepseekv3", [PARIS])] });
    expect(choice).toEqual({
      index: 0,
      message: {
        role: "assistant",
        content: null,
        reasoning_content: null,
        tool_calls: [
          {
            id: expect.stringMatching(/^call_[0-9a-f]{24}$/),
            index: 0,
            type: "function",
            function: { name: "get_weather", arguments: '{"city": "Paris"}' },
          },
        ],
      },
      logprobs: null,
      finish_reason: "tool_calls",
      matched_stop: null,
    });
  });

  test("keeps the text before its calls, which are numbered", async () => {
    const text = `One moment.\n\n${writeCalls("deepseekv3", [PARIS, NOW, PARIS])}`;
    const { message } = (await complete({ pieces: [text] }))[0]!;
    expect(message.content).toBe("One moment.");
    expect(message.tool_calls!.map(({ index }) => index)).toEqual([0, 1, 2]);
    expect(new Set(message.tool_calls!.map(({ id }) => id)).size).toBe(3);
  });

  test("that the limit cuts off keeps length as its reason", async () => {
    const pieces = [writeCalls("deepseekv3", [PARIS]).slice(0, -60)];
    const finish = { type: "length", length: 5 } as const;
    const [choice] = await complete({ pieces, finish });
    expect(choice).toMatchObject({ finish_reason: "length", matched_stop: null });
    expect(choice!.message.tool_calls).toHaveLength(1);
  });

  test("without calls is what it would be without tools", async () => {
    const [choice] = await complete({ pieces: ["Sunny.\n"] });
    expect(choice).toMatchObject({
      message: { content: "Sunny.\n", tool_calls: null },
      finish_reason: "stop",
      matched_stop: 1,
    });
  });
});

describe("a stream", () => {
  test("tells a call's name, then its arguments as they come, then the reason", async () => {
    const pieces = randomPieces(writeCalls("deepseekv3", [PARIS]), 3);
    const [role, first, ...rest] = await stream({ pieces });
    const last = rest.pop();
    const none = { role: null, content: null, reasoning_content: null, tool_calls: null };
    expect(role!.delta).toEqual({ ...none, role: "assistant", content: "" });
    const call = { index: 0, type: "function" };
    const id = expect.stringMatching(/^call_[0-9a-f]{24}$/);
    expect(first!.delta).toEqual({
      ...none,
      tool_calls: [{ ...call, id, function: { name: "get_weather", arguments: "" } }],
    });
    expect(rest.length).toBeGreaterThan(3);
    for (const { delta, finish_reason } of rest) {
      const piece = { name: null, arguments: expect.stringMatching(/./) };
      expect(delta).toEqual({ ...none, tool_calls: [{ ...call, id: null, function: piece }] });
      expect(finish_reason).toBeNull();
    }
    expect(last).toMatchObject({ delta: none, finish_reason: "tool_calls", matched_stop: 1 });
  });

  test("sends each token's arguments with the token", async () => {
    const text = writeCalls("deepseekv3", [PARIS]);
    const at = text.indexOf("Paris");
    const pieces = [text.slice(0, at), "Par", "is", text.slice(at + 5)];
    const deltas = (await stream({ pieces })).map(({ delta }) => delta);
    const told = deltas.flatMap((delta) => delta.tool_calls?.map((call) => call.function) ?? []);
    expect(told.map((called) => called.arguments)).toEqual(["", '{"city": "', "Par", "is", '"}']);
  });

  test.each(TOOL_CALL_PARSERS)("of %s adds up to the whole answer", async (format) => {
    const calls = [PARIS, NOW, { name: "get_weather", args: { city: "Zoë 🦊", days: [1, 2] } }];
    const text = writeCalls(format, calls);
    const options: AppOptions = { toolCallParser: format };
    const { message: whole, ...end } = (await complete({ pieces: [text] }, {}, options))[0]!;
    expect(whole.tool_calls!.map((call) => call.function.name)).toEqual(calls.map((c) => c.name));
    for (let seed = 1; seed <= 8; seed++) {
      const choices = await stream({ pieces: randomPieces(text, seed) }, {}, options);
      const joined = join(choices.map(({ delta }) => delta));
      expect(joined).toEqual({
        content: whole.content,
        calls: whole.tool_calls!.map((call) => call.function),
      });
      expect(choices.at(-1)!.finish_reason).toBe(end.finish_reason);
      expect(choices.filter((choice) => choice.finish_reason !== null)).toHaveLength(1);
    }
  });

  test("of several choices keeps their calls apart", async () => {
    const pieces = randomPieces(writeCalls("deepseekv3", [PARIS, NOW]), 5);
    const choices = await stream({ pieces }, { n: 2 });
    for (const index of [0, 1]) {
      const own = choices.filter((choice) => choice.index === index);
      expect(join(own.map(({ delta }) => delta)).calls).toHaveLength(2);
    }
  });
});

/** What deltas add up to, as a client adds them. */
function join(deltas: readonly Message[]) {
  let content = "";
  const calls: { name: string; arguments: string }[] = [];
  for (const delta of deltas) {
    content += delta.content ?? "";
    for (const { index, function: called } of delta.tool_calls ?? []) {
      calls[index] ??= { name: "", arguments: "" };
      calls[index].name += called.name ?? "";
      calls[index].arguments += called.arguments;
    }
  }
  return { content: content === "" ? null : content, calls };
}

describe("the request", () => {
  async function asked(body: object, options: AppOptions = deepseek) {
    const { app, engine } = server({ pieces: ["x"] }, options);
    expect((await post(app, PATH, { messages: MESSAGES, ...body })).status).toBe(200);
    return engine.requests[0]!;
  }

  test("gives the tools to the chat template as they are", async () => {
    const own = { type: "function", function: { ...TOOL.function, return: { type: "string" } } };
    expect((await asked({ tools: [own] })).tools).toEqual([own]);
    expect((await asked({ tools: TOOLS }, {})).tools).toEqual(TOOLS);
    expect(await asked({ tools: TOOLS, tool_choice: "none" })).not.toHaveProperty("tools");
    expect(await asked({ tools: [] })).not.toHaveProperty("tools");
  });

  test.each<[ToolCallParserName, string]>([
    ["llama3", "<|python_tag|>"],
    ["gpt-oss", "<|channel|>"],
    ["deepseekv3", "<｜tool▁sep｜>"],
  ])("of %s has its marks shown, where there are tools", async (toolCallParser, mark) => {
    const options = { toolCallParser };
    const { sampling } = await asked({ tools: TOOLS }, options);
    expect(sampling!.shownSpecialTokens).toContain(mark);
    expect(sampling).not.toHaveProperty("skipSpecialTokens");
    expect((await asked({}, options)).sampling).not.toHaveProperty("shownSpecialTokens");
  });

  test("without a parser has all special tokens shown, unless it says otherwise", async () => {
    const { sampling } = await asked({ tools: TOOLS }, {});
    expect(sampling).toMatchObject({ skipSpecialTokens: false });
    const own = await asked({ tools: TOOLS, skip_special_tokens: true }, {});
    expect(own.sampling!.skipSpecialTokens).toBe(true);
    for (const body of [{}, { tools: TOOLS, tool_choice: "none" }]) {
      expect((await asked(body, {})).sampling).not.toHaveProperty("skipSpecialTokens");
    }
  });

  test.each([{ tool_choice: "auto" }, { tool_choice: "none" }, { parallel_tool_calls: true }])(
    "takes %j",
    async (fields) => {
      await asked({ tools: TOOLS, ...fields });
    },
  );

  test.each([
    [{ tools: {} }, "tools must be a list, got an object"],
    [{ tools: [1] }, "tools[0] must be an object, got 1"],
    [{ tools: [{}] }, "tools[0].function must be an object, got nothing"],
    [{ tools: [{ type: "web" }] }, 'tools[0].type must be "function", got "web"'],
    [{ tools: [{ function: {} }] }, "tools[0].function.name must be a string, got nothing"],
    [{ tools: [{ function: { name: "" } }] }, "tools[0].function.name cannot be empty"],
    [
      { tools: [{ function: { name: "f", parameters: [] } }] },
      "tools[0].function.parameters must be an object, got an empty list",
    ],
    [{ tools: [{ function: { name: "f", strict: 1 } }] }, "strict must be true or false, got 1"],
    [
      { tool_choice: { type: "function", function: { name: "then" } } },
      'tool_choice.function.name must be the name of one of the tools, got "then"',
    ],
    [{ tool_choice: { type: "web" } }, 'tool_choice.type must be "function", got "web"'],
    [{ tool_choice: {} }, "tool_choice.function must be an object, got nothing"],
    [
      { tool_choice: "required", response_format: { type: "json_object" } },
      "Cannot use response_format, regex or ebnf: the request also has tool calls that are enforced",
    ],
    [{ tool_choice: "any" }, "tool_choice must be none, auto, required or an object with a"],
    [{ tool_choice: 1 }, "tool_choice must be a string or an object, got 1"],
    [{ tools: [], tool_choice: "required" }, "Cannot use tool_choice: it asks for a call"],
  ])("with %j is refused", async (fields, message) => {
    const { app, engine } = server({}, deepseek);
    const body = { messages: MESSAGES, tools: TOOLS, ...fields };
    const response = await post(app, PATH, body);
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain(message);
    expect(engine.requests).toEqual([]);
  });

  const NAMED = { type: "function", function: { name: "now" } };

  test("with a tool chosen by name shows the template no other", async () => {
    const { app, engine } = server({}, deepseek);
    for (const tool_choice of [NAMED, "required"]) {
      await post(app, PATH, { messages: MESSAGES, tools: TOOLS, tool_choice });
    }
    expect(engine.requests.map(({ tools }) => tools)).toEqual([[TOOLS[1]], TOOLS]);
  });

  const STRICT = { ...TOOL, function: { ...TOOL.function, strict: true } };
  const schema = { name: "get_weather", parameters: PARAMETERS };

  test.each<[object, object | undefined]>([
    [{}, undefined],
    [{ tool_choice: "none", parallel_tool_calls: false }, undefined],
    [{ tool_choice: "required" }, { functions: [schema, { name: "now" }], required: true }],
    [{ tool_choice: NAMED }, { functions: [{ name: "now" }], required: true }],
    [
      { parallel_tool_calls: false },
      { functions: [{ name: "get_weather" }, { name: "now" }], parallel: false },
    ],
    [{ tools: [STRICT, TOOLS[1]] }, { functions: [schema, { name: "now" }] }],
    [
      { tools: [STRICT], tool_choice: "required", parallel_tool_calls: false },
      { functions: [schema], required: true, parallel: false },
    ],
  ])("%j holds the model to it", async (fields, enforced) => {
    const { app, engine } = server({}, deepseek);
    const body = { messages: MESSAGES, tools: TOOLS, ...fields };
    expect((await post(app, PATH, body)).status).toBe(200);
    const { constraint } = engine.requests[0]!;
    const source = enforced && {
      format: "deepseekv3",
      required: false,
      parallel: true,
      ...enforced,
    };
    expect(constraint && { ...constraint, source: JSON.parse(constraint.source) }).toEqual(
      enforced && { kind: "tools", source },
    );
  });

  test.each<[AppOptions, string]>([
    [{}, "Cannot use tool calls that are enforced: the server has no --tool-call-parser"],
    [{ toolCallParser: "pythonic" }, "in the form pythonic: it has no grammar"],
  ])("with the server %j nothing can be enforced", async (options, message) => {
    const { app } = server({}, options);
    const body = { messages: MESSAGES, tools: TOOLS, tool_choice: "required" };
    const response = await post(app, PATH, body);
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain(message);
  });

  test("parameters that nest too deep are refused", async () => {
    const { app, engine } = server({}, deepseek);
    const depth = 100_000;
    const parameters = `${'{"not":'.repeat(depth)}{}${"}".repeat(depth)}`;
    const tool = `{"type":"function","function":{"name":"f","parameters":${parameters}}}`;
    const messages = JSON.stringify(MESSAGES);
    const response = await app.request(PATH, {
      method: "POST",
      headers: { "content-type": "application/json" },
      body: `{"messages":${messages},"tools":[${tool}],"tool_choice":"required"}`,
    });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain("it nests deeper than 512 levels");
    expect(engine.requests).toEqual([]);
  });

  test("thoughts come first where a parser knows them", async () => {
    const { app, engine } = server({}, { reasoningParser: "deepseek-r1" });
    await post(app, PATH, { messages: MESSAGES, response_format: { type: "json_object" } });
    expect(engine.requests[0]).toMatchObject({
      sampling: { jsonSchema: { type: "object" } },
      thinking: { begin: "<think>", end: "</think>", isOpen: true },
    });
  });

  test.each<[string, object, AppOptions]>([
    ["without a parser", {}, {}],
    ["with the choice none", { tool_choice: "none" }, deepseek],
    ["without tools", { tools: [] }, deepseek],
  ])("%s leaves what the model writes in the content", async (_, body, options) => {
    const text = writeCalls("deepseekv3", [PARIS]);
    expect((await complete({ pieces: [text] }, body, options))[0]).toMatchObject({
      message: { content: text, tool_calls: null },
      finish_reason: "stop",
    });
  });
});

describe("POST /parse_function_call", () => {
  const parse = (body: object, options: AppOptions = {}) =>
    post(server({}, options).app, "/parse_function_call", body);

  test("tells text and calls, each with the position of its tool", async () => {
    const text = `So:\n${writeCalls("qwen25", [NOW, PARIS])}`;
    const response = await parse({ text, tools: TOOLS, tool_call_parser: "qwen25" });
    expect(await answer(response)).toEqual({
      normal_text: "So:",
      calls: [
        { tool_index: 1, name: "now", parameters: "{}" },
        { tool_index: 0, name: "get_weather", parameters: '{"city": "Paris"}' },
      ],
    });
  });

  test("takes the server's own parser where none is named", async () => {
    const body = { text: writeCalls("deepseekv3", [NOW]), tools: TOOLS };
    expect(await answer(await parse(body, deepseek))).toMatchObject({
      normal_text: "",
      calls: [{}],
    });
    const response = await parse(body);
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain("Cannot parse without tool_call_parser");
  });

  test.each([
    [{ tools: TOOLS }, "text must be a string, got nothing"],
    [{ text: "x", tool_call_parser: "x" }, "tool_call_parser must be one of deepseekv3, "],
    [{ text: "x", tools: 1 }, "tools must be a list, got 1"],
    [{ text: "x", parser: "x" }, "Cannot use parser: it is not a known field"],
  ])("with %j is refused", async (body, message) => {
    const response = await parse(body, deepseek);
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain(message);
  });
});
