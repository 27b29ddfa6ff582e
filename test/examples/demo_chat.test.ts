import { expect, test } from "vitest";
import { answer, MAX_ROUNDS } from "../../examples/browser/chat/answer.ts";
import {
  type Chat,
  messagesOf,
  newAnswer,
  newChat,
  titleOf,
} from "../../examples/browser/chat/conversation.ts";
import { loadSettings, samplingParams } from "../../examples/browser/chat/settings.ts";
import { TOOLS } from "../../examples/browser/chat/tools.ts";
import { engineSource } from "../../examples/browser/model/engine_source.ts";
import { explainError } from "../../examples/browser/model/explain_error.ts";
import { type Script, ScriptedEngine } from "../support/engines/scripted_engine.ts";

test("messagesOf gives the model instructions, rounds, calls and their results", () => {
  const chat: Chat = {
    ...newChat(),
    system: "Be brief.",
    turns: [
      { role: "user", text: "What time is it in Tokyo?" },
      {
        role: "assistant",
        end: "stop",
        rounds: [
          {
            reasoning: "Look.",
            content: "",
            calls: [
              { id: "1", name: "get_time", arguments: "{}", result: "14:05" },
              { id: "2", name: "get_time", arguments: "{" },
            ],
          },
          { reasoning: "", content: "14:05", calls: [] },
        ],
      },
      { role: "assistant", end: "error", rounds: [{ reasoning: "", content: "", calls: [] }] },
    ],
  };
  const call = { id: "1", type: "function", function: { name: "get_time", arguments: "{}" } };
  expect(messagesOf(chat)).toEqual([
    { role: "system", content: "Be brief." },
    { role: "user", content: "What time is it in Tokyo?" },
    { role: "assistant", content: "", reasoning_content: "Look.", tool_calls: [call] },
    { role: "tool", tool_call_id: "1", content: "14:05" },
    { role: "assistant", content: "14:05" },
  ]);
  expect(titleOf(chat)).toBe("What time is it in Tokyo?");
  expect(titleOf(newChat())).toBe("New chat");
});

test("samplingParams: the visitor's over the model's over the documented ones", () => {
  const defaults = { temperature: 0.6, topP: 0.95 };
  expect(samplingParams({}, defaults)).toEqual({
    ...{ temperature: 0.6, topP: 0.95, topK: -1, maxNewTokens: null },
  });
  expect(samplingParams({ temperature: 0, topK: 5, minP: 0.1, seed: 7 }, defaults)).toEqual({
    ...{ temperature: 0, topP: 0.95, topK: 5, maxNewTokens: null, minP: 0.1, seed: 7 },
  });
});

const CALL = '<tool_call>\n{"name": "add", "arguments": {"a": 12, "b": 35}}\n</tool_call>';

/** An answer by an engine of Qwen's family that says these texts, one a round; the last for ever. */
async function answered(
  scripts: readonly Script[],
  settings: Partial<ReturnType<typeof loadSettings>> = {},
  signal = new AbortController().signal,
) {
  let round = 0;
  const engine = new ScriptedEngine({
    model: { family: "qwen3", thinkingVariables: ["enable_thinking"] },
    script: () => scripts[Math.min(round++, scripts.length - 1)]!,
  });
  const turn = newAnswer();
  await answer(turn, {
    source: engineSource(engine),
    messages: [{ role: "user", content: "What is 12 + 35?" }],
    images: [],
    settings: { ...loadSettings(), usesTools: true, ...settings },
    tools: TOOLS,
    signal,
    onChange: () => {},
  });
  return { turn, requests: engine.requests };
}

test("answer runs what the model calls and lets it go on", async () => {
  const { turn, requests } = await answered([
    { pieces: ["<think>", "Add.", "</think>", CALL] },
    { pieces: ["It is ", "47."] },
  ]);
  expect(turn.end).toBe("stop");
  expect(turn.rounds).toEqual([
    {
      reasoning: "Add.",
      content: "",
      calls: [
        {
          id: expect.any(String),
          name: "add",
          arguments: '{"a": 12, "b": 35}',
          result: '{"result":47}',
          isRefused: false,
        },
      ],
    },
    { reasoning: "", content: "It is 47.", calls: [] },
  ]);
  expect(turn.stats).toMatchObject({ completionTokens: 8 });
  expect(requests[1]!.messages).toHaveLength(3);
  expect(requests[1]!.messages!.at(-1)).toMatchObject({ role: "tool", content: '{"result":47}' });
});

test("answer stops a model that calls for ever", async () => {
  const { turn, requests } = await answered([{ pieces: [CALL] }]);
  expect(turn.end).toBe("rounds");
  expect(requests).toHaveLength(MAX_ROUNDS);
});

test("answer does not run a call that was cut off", async () => {
  const finish = { type: "length", length: 3 } as const;
  const { turn } = await answered([{ pieces: [CALL.slice(0, 50)], finish }]);
  expect(turn.end).toBe("length");
  expect(turn.rounds[0]!.calls.every(({ result }) => result === undefined)).toBe(true);
});

test("answer tells an error with what can be done, and an abort as such", async () => {
  const error = new Error("Cannot answer: the device was lost");
  const failed = await answered([{ pieces: ["a", "b"], failure: { at: 1, error } }]);
  expect(failed.turn).toMatchObject({
    end: "error",
    error: "Cannot answer: the device was lost. Load the model again.",
    rounds: [{ content: "a" }],
  });
  const stopped = await answered([{ pieces: ["a"] }], {}, AbortSignal.abort());
  expect(stopped.turn.end).toBe("stopped");
  expect(stopped.turn.error).toBeUndefined();
});

test("answer in JSON offers no tools, sends the schema and checks the result", async () => {
  const schema = '{"type": "object", "properties": {"a": {"type": "integer"}}, "required": ["a"]}';
  const json = { answersJson: true, schema };
  const good = await answered([{ pieces: ['{"a"', ": 1}"] }], json);
  expect(good.turn).toMatchObject({ end: "stop", fitsSchema: true });
  expect(good.requests[0]!.tools).toBeUndefined();
  expect(good.requests[0]!.sampling!.jsonSchema).toBe(schema);
  const finish = { type: "length", length: 1 } as const;
  const cut = await answered([{ pieces: ['{"a"'], finish }], json);
  expect(cut.turn).toMatchObject({ end: "length", fitsSchema: false });
});

test("answer tells the chat template whether to think", async () => {
  const variables = async (thinking: "auto" | "on" | "off") =>
    (await answered([{ pieces: ["a"] }], { thinking })).requests[0]!.templateVariables;
  expect(await variables("auto")).toBeUndefined();
  expect(await variables("on")).toEqual({ enable_thinking: true });
  expect(await variables("off")).toEqual({ enable_thinking: false });
});

test.each([
  ["Cannot find a GPU adapter: this browser has no WebGPU", /Chrome and Edge/],
  ["Cannot load the model: its weights take 9 GB, but only 3 GB may be used", /int4/],
  ["Cannot load config.json: https://example.org cannot be reached (Failed to fetch)", /CORS/],
  ["Cannot load config.json: https://example.org/ has no such file (404)", /must be a folder/],
  ["Something else", undefined],
])("explainError: %s", (message, advice) => {
  const found = explainError(new Error(message));
  expect(found.text).toBe(message);
  if (advice === undefined) expect(found.advice).toBeUndefined();
  else expect(found.advice).toMatch(advice);
});

test("explainError knows a full storage by its name, whatever thread it comes from", () => {
  const error = Object.assign(new Error("no room"), { name: "StorageFullError" });
  expect(explainError(error).advice).toMatch(/^Delete models/);
});
