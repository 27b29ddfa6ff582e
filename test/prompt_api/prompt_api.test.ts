/// <reference types="dom-chromium-ai" />
/** The Prompt API over an engine: of the types that are published for browsers, and as they behave. */
import { describe, expect, test } from "vitest";
import { languageModelOf, type PromptEngine } from "../../src/prompt_api/index.ts";
import { openaiChat } from "../../src/server/openai_chat.ts";
import { type Script, ScriptedEngine } from "../support/engines/scripted_engine.ts";
import { writePng } from "../support/images/write_png.ts";
import { until } from "../support/until.ts";

/** What a page sees, in the types of browsers that have the interface. */
type BrowsersOwn = Pick<typeof LanguageModel, "create" | "availability" | "params">;

function setUp(
  script: (prompt: number) => Script = () => ({ pieces: ["Hi", " you"] }),
  contextLength = 4096,
) {
  let prompts = 0;
  const engine = new ScriptedEngine({
    model: { family: "qwen3", readsImages: true, contextLength, defaults: { temperature: 0.6 } },
    script: () => script(prompts++),
  });
  const asked: PromptEngine = {
    model: engine.model,
    chat: openaiChat(engine),
    // A token a character of every message, so that a conversation grows.
    tokenize: async ({ messages = [] }) =>
      messages.flatMap(({ content }) => Array.from(String(content), () => 5)),
  };
  const api: BrowsersOwn = languageModelOf(asked);
  return { engine, asked, api };
}

const endless = (chunk: number) => (chunk < 2 ? Promise.resolve() : new Promise<void>(() => {}));
const turns = (engine: ScriptedEngine, request = engine.requests.length - 1) =>
  engine.requests[request]!.messages!.map(({ role, content }) => [role, content]);

describe("a session", () => {
  test("prompts, streams, and remembers", async () => {
    const { engine, api } = setUp();
    const session = await api.create({
      initialPrompts: [{ role: "system", content: "Be brief" }],
    });
    expect(await session.prompt("Hello")).toBe("Hi you");
    const pieces: string[] = [];
    for await (const piece of session.promptStreaming([{ role: "user", content: "And?" }])) {
      pieces.push(piece);
    }
    expect(pieces).toEqual(["Hi", " you"]);
    expect(turns(engine)).toEqual([
      ["system", "Be brief"],
      ["user", "Hello"],
      ["assistant", "Hi you"],
      ["user", "And?"],
    ]);
    expect(session.contextUsage).toBeGreaterThan(0);
    expect(session.contextWindow).toBe(4096);
  });

  test("appends what is answered later, and clones with all of it", async () => {
    const { engine, api } = setUp();
    const session = await api.create();
    await session.append([{ role: "user", content: "One" }]);
    const copy = await session.clone();
    await session.prompt("Two");
    await copy.prompt("Three");
    expect(turns(engine, 0)).toEqual([
      ["user", "One"],
      ["user", "Two"],
    ]);
    expect(turns(engine, 1)).toEqual([
      ["user", "One"],
      ["user", "Three"],
    ]);
  });

  test("measures what a prompt would add", async () => {
    const { api } = setUp();
    const session = await api.create({ initialPrompts: [{ role: "user", content: "12345" }] });
    expect(await session.measureContextUsage("123")).toBe(3);
    expect(session.contextUsage).toBe(5);
  });

  test("holds its answer to a schema or an expression", async () => {
    const { engine, api } = setUp();
    const session = await api.create();
    const responseConstraint = { type: "object", properties: { sum: { type: "integer" } } };
    await session.prompt("Add", { responseConstraint });
    expect(JSON.stringify(engine.requests[0])).toContain("sum");
    await session.prompt("Add", { responseConstraint: /yes|no/ as never });
    expect(JSON.stringify(engine.requests[1])).toContain("yes|no");
    await expect(session.prompt("Add", { omitResponseConstraintInput: true })).rejects.toThrow(
      TypeError,
    );
  });

  test.each(["i", "m", "s", "v"])("is held to no expression of the flag %s", async (flag) => {
    const { engine, api } = setUp();
    const session = await api.create();
    const prompt = (flags: string) =>
      session.prompt("Add", { responseConstraint: new RegExp("yes|no", flags) as never });
    await expect(prompt(flag)).rejects.toMatchObject({ name: "NotSupportedError" });
    expect(engine.requests).toEqual([]);
    await prompt("dgy");
    await prompt("u");
    expect(engine.requests).toHaveLength(2);
  });

  test("goes on with a prefix", async () => {
    const { engine, api } = setUp();
    const session = await api.create();
    const said = await session.prompt([
      { role: "user", content: "Write TOML" },
      { role: "assistant", content: "```toml\n", prefix: true },
    ]);
    expect(said).toBe("Hi you");
    expect(engine.requests[0]!.continueFinalMessage).toBe(true);
    await session.prompt("More");
    expect(turns(engine)[1]).toEqual(["assistant", "```toml\nHi you"]);
  });

  test("calls tools, and answers with what they say", async () => {
    const call = ['<tool_call>\n{"name": "add", "arguments": {"a": 12}}\n</tool_call>'];
    const { engine, api } = setUp((prompt) => ({ pieces: prompt === 0 ? call : ["42"] }));
    const asked: unknown[] = [];
    const session = await api.create({
      tools: [
        {
          name: "add",
          description: "Adds",
          inputSchema: { type: "object" },
          execute: async (input) => {
            asked.push(input);
            return "42";
          },
        },
      ],
    });
    expect(await session.prompt("12 + 30?")).toBe("42");
    expect(asked).toEqual([{ a: 12 }]);
    expect(turns(engine).at(-1)).toEqual(["tool", "42"]);
  });

  test("shows pictures where they are expected", async () => {
    const png = writePng({ colorType: 0, bitDepth: 8, width: 2, height: 2, sample: () => 7 });
    const { engine, api } = setUp();
    const content: LanguageModelMessageContent[] = [
      { type: "text", value: "What is it?" },
      { type: "image", value: new Blob([png], { type: "image/png" }) },
    ];
    const session = await api.create({ expectedInputs: [{ type: "image" }] });
    await session.prompt([{ role: "user", content }]);
    expect(engine.requests[0]!.images).toEqual([new Uint8Array(png)]);
    const blind = await api.create();
    await expect(blind.prompt([{ role: "user", content }])).rejects.toMatchObject({
      name: "NotSupportedError",
    });
  });

  test("samples by its mode, or by its numbers", async () => {
    const { engine, api } = setUp();
    await (await api.create({ samplingMode: "most-predictable" })).prompt("Hi");
    await (await api.create({ temperature: 0.7, topK: 4 })).prompt("Hi");
    expect(engine.requests.map(({ sampling }) => sampling!.temperature)).toEqual([0, 0.7]);
    expect(engine.requests[1]!.sampling!.topK).toBe(4);
    const both = { samplingMode: "balanced", topK: 4 } as never;
    await expect(api.create(both)).rejects.toThrow(TypeError);
    const { defaultTemperature, maxTopK } = await api.params();
    expect([defaultTemperature, maxTopK]).toEqual([0.6, 1024]);
  });

  test("forgets its oldest turns where the context is full, and says so", async () => {
    const { engine, api } = setUp(() => ({ pieces: ["a"] }), 60);
    const session = await api.create({ initialPrompts: [{ role: "system", content: "12345" }] });
    const events: string[] = [];
    session.addEventListener("contextoverflow", ({ type }) => events.push(type));
    session.oncontextoverflow = () => events.push("handler");
    for (const letter of ["x", "y", "z"]) await session.prompt(letter.repeat(20));
    expect(events).toEqual(["handler", "contextoverflow"]);
    expect(turns(engine).map(([, content]) => content![0])).toEqual(["1", "y", "a", "z"]);
    const long = session.prompt("l".repeat(60));
    await expect(long).rejects.toMatchObject({
      name: "QuotaExceededError",
      requested: 65,
      quota: 60,
    });
  });
});

describe("an end", () => {
  test("by a signal forgets the prompt with its answer, and the next one goes on", async () => {
    const { engine, api } = setUp((prompt) => ({
      pieces: ["one", "two", "three"],
      ...(prompt === 0 && { gate: endless }),
    }));
    const session = await api.create();
    const abort = new AbortController();
    const first = session.prompt("First", { signal: abort.signal });
    const queued = session.prompt("Second");
    await until(() => expect(engine.running).toHaveLength(1));
    abort.abort();
    await expect(first).rejects.toMatchObject({ name: "AbortError" });
    expect(await queued).toBe("onetwothree");
    expect(turns(engine)).toEqual([["user", "Second"]]);
    expect(engine.cutShort).toHaveLength(1);
  });

  test("of the reader ends the generation", async () => {
    const { engine, api } = setUp(() => ({ pieces: ["one", "two", "three"], gate: endless }));
    const session = await api.create();
    const reader = session.promptStreaming("Count").getReader();
    expect((await reader.read()).value).toBe("one");
    await reader.cancel();
    await until(() => expect(engine.cutShort).toHaveLength(1));
  });

  test.each([0, 1, 2])("of what is appended leaves the conversation as it was (%s)", async (at) => {
    const { engine, asked } = setUp();
    const abort = new AbortController();
    let calls = 0;
    const api: BrowsersOwn = languageModelOf({
      ...asked,
      // At the beginning, or while the room for it is measured, or the conversation with it.
      tokenize: async (request) => {
        if (calls++ === at) abort.abort();
        await new Promise((resolve) => setTimeout(resolve));
        return asked.tokenize(request);
      },
    });
    const session = await api.create();
    await session.append("Zero");
    calls = 0;
    const { signal } = abort;
    await expect(session.append("One", { signal })).rejects.toMatchObject({ name: "AbortError" });
    await session.prompt("Two");
    expect(turns(engine)).toEqual([
      ["user", "Zero"],
      ["user", "Two"],
    ]);
  });

  test("of a reader just when the answer ends is no failure", async () => {
    const failures: unknown[] = [];
    const fail = (error: unknown) => failures.push(error);
    process.on("unhandledRejection", fail);
    for (let wait = 0; wait < 40; wait++) {
      const { api } = setUp(() => ({ pieces: ["one"] }));
      const reader = (await api.create()).promptStreaming("Count").getReader();
      await reader.read();
      for (let turn = 0; turn < wait; turn++) await undefined;
      await reader.cancel();
      await new Promise((resolve) => setTimeout(resolve));
    }
    process.off("unhandledRejection", fail);
    expect(failures).toEqual([]);
  });

  test("of the session ends what it answers, and all that is asked later", async () => {
    const { engine, api } = setUp(() => ({ pieces: ["one", "two", "three"], gate: endless }));
    const session = await api.create();
    const prompt = session.prompt("Count");
    await until(() => expect(engine.running).toHaveLength(1));
    session.destroy();
    await expect(prompt).rejects.toMatchObject({ name: "AbortError" });
    await expect(session.prompt("Hi")).rejects.toMatchObject({ name: "InvalidStateError" });
    await expect(session.clone()).rejects.toMatchObject({ name: "InvalidStateError" });
    await until(() => expect(engine.running).toEqual([]));
  });

  test("by a failure is the operation's, and a constraint that is refused is not supported", async () => {
    const failure = { at: 1, error: new Error("The GPU was lost") };
    const { api } = setUp((prompt) => (prompt === 0 ? { pieces: ["a", "b"], failure } : {}));
    const session = await api.create();
    await expect(session.prompt("Hi")).rejects.toMatchObject({ name: "OperationError" });
    const responseConstraint = [] as never;
    await expect(session.prompt("Hi", { responseConstraint })).rejects.toMatchObject({
      name: "NotSupportedError",
    });
    await expect(session.prompt([{ role: "system", content: "x" }] as never)).rejects.toThrow(
      TypeError,
    );
  });
});

describe("an engine that is loaded with the first session", () => {
  test("is available then, and tells how far it is", async () => {
    const { asked } = setUp();
    let finish: (() => void) | undefined;
    let loads = 0;
    const api: BrowsersOwn = languageModelOf(async (onProgress) => {
      loads += 1;
      await new Promise<void>((resolve) => {
        finish = resolve;
      });
      onProgress(0.5);
      return asked;
    });
    expect(await api.availability()).toBe("downloadable");
    const shares: number[] = [];
    const monitor: CreateMonitorCallback = (target) =>
      target.addEventListener("downloadprogress", ({ loaded }) => shares.push(loaded));
    const sessions = Promise.all([api.create({ monitor }), api.create()]);
    await until(() => expect(finish).toBeDefined());
    expect(await api.availability()).toBe("downloading");
    finish!();
    await sessions;
    expect([loads, shares, await api.availability()]).toEqual([1, [0, 0.5, 1], "available"]);
    expect(await api.availability({ expectedInputs: [{ type: "audio" }] })).toBe("unavailable");
    await expect(api.create({ expectedOutputs: [{ type: "image" }] })).rejects.toMatchObject({
      name: "NotSupportedError",
    });
  });

  test("is loaded again after a load that failed", async () => {
    const { asked } = setUp();
    let loads = 0;
    const api: BrowsersOwn = languageModelOf(async () => {
      if (loads++ === 0) throw new Error("offline");
      return asked;
    });
    await expect(api.create()).rejects.toThrow("offline");
    expect(await api.availability()).toBe("downloadable");
    expect(await (await api.create()).prompt("Hi")).toBe("Hi you");
  });
});
