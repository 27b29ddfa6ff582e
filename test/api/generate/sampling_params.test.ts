/** Section 2.2 of the specification: the object `sampling_params`. */
import { describe, expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import {
  answer,
  errorMessage,
  type GenerateAnswer,
  post,
} from "../../support/server/http_client.ts";

function generate(engine: ScriptedEngine, sampling_params: unknown): Promise<Response> {
  return post(createApp(engine), "/generate", { text: "abc", sampling_params });
}

describe("sampling_params", () => {
  test.each([
    [{}, {}],
    [{ max_new_tokens: 5 }, { maxNewTokens: 5 }],
    [{ max_new_tokens: 0 }, { maxNewTokens: 0 }],
    [{ max_new_tokens: null }, { maxNewTokens: null }],
    [{ temperature: 0 }, { temperature: 0 }],
    [
      { top_p: 1, top_k: -1 },
      { topP: 1, topK: -1 },
    ],
    [
      { top_p: 0.001, top_k: 1 },
      { topP: 0.001, topK: 1 },
    ],
    [{ stop: "x" }, { stop: "x" }],
    [{ stop: ["x", "yz"] }, { stop: ["x", "yz"] }],
    [{ stop_token_ids: [1, 2] }, { stopTokenIds: [1, 2] }],
    [{ ignore_eos: true }, { ignoreEos: true }],
    [{ skip_special_tokens: false }, { skipSpecialTokens: false }],
    [{ no_stop_trim: true }, { noStopTrim: true }],
    [{ min_p: 0 }, { minP: 0 }],
    [{ min_p: 1 }, { minP: 1 }],
    [
      { frequency_penalty: -2, presence_penalty: 2, repetition_penalty: 2 },
      { frequencyPenalty: -2, presencePenalty: 2, repetitionPenalty: 2 },
    ],
    [{ repetition_penalty: 0 }, { repetitionPenalty: 0 }],
    [
      { min_new_tokens: 0, max_new_tokens: 0 },
      { minNewTokens: 0, maxNewTokens: 0 },
    ],
    [
      { min_new_tokens: 4, max_new_tokens: 5 },
      { minNewTokens: 4, maxNewTokens: 5 },
    ],
    [{ min_new_tokens: 127 }, { minNewTokens: 127 }],
    [
      { min_new_tokens: 999, max_new_tokens: null },
      { minNewTokens: 999, maxNewTokens: null },
    ],
    [{ logit_bias: { "5": -1.5, "65535": 1e9 } }, { logitBias: { 5: -1.5, 65535: 1e9 } }],
    [{ logit_bias: {} }, { logitBias: {} }],
    [{ sampling_seed: 42 }, { seed: 42 }],
    [{ sampling_seed: -1 }, { seed: 0xffffffff }],
    [{ json_schema: "{}" }, { jsonSchema: "{}" }],
    [{ json_unknown: "refuse" }, { jsonUnknown: "refuse" }],
    [{ regex: "a+", ebnf: "" }, { regex: "a+" }],
    [{ structural_tag: "{}" }, { structuralTag: "{}" }],
    [{ ebnf: 'root ::= "a"' }, { ebnf: 'root ::= "a"' }],
    [{ temperature: null, stop: null, sampling_seed: null }, {}],
  ])("%j reaches the engine", async (params, sampling) => {
    const engine = new ScriptedEngine();
    const response = await generate(engine, params);
    expect(response.status).toBe(200);
    expect(engine.requests[0]!.sampling).toEqual(sampling);
  });

  test.each([
    { n: 1, stream_interval: 1 },
    { spaces_between_special_tokens: true },
    { spaces_between_special_tokens: false },
    { json_schema: null, regex: "", ebnf: null, logit_bias: null, custom_params: null },
  ])("takes the neutral %j", async (params) => {
    const engine = new ScriptedEngine();
    expect((await generate(engine, params)).status).toBe(200);
    expect(engine.requests[0]!.sampling).toEqual({});
  });

  test.each([
    ["max_new_tokens", -1, "must be at least 0, got -1"],
    ["max_new_tokens", 1.5, "must be an integer, got 1.5"],
    ["max_new_tokens", "5", 'must be an integer, got "5"'],
    ["temperature", -0.1, "must be at least 0, got -0.1"],
    ["temperature", "hot", 'must be a number, got "hot"'],
    ["temperature", true, "must be a number, got true"],
    ["top_p", 0, "must be above 0 and at most 1, got 0"],
    ["top_p", 1.01, "must be above 0 and at most 1, got 1.01"],
    ["top_k", 0, "must be -1 or at least 1, got 0"],
    ["top_k", -2, "must be -1 or at least 1, got -2"],
    ["top_k", 1.5, "must be an integer, got 1.5"],
    ["stop", 1, "must be a string, got 1"],
    ["stop_token_ids", 1, "must be a list, got 1"],
    ["ignore_eos", 1, "must be true or false, got 1"],
    ["skip_special_tokens", "no", 'must be true or false, got "no"'],
    ["sampling_seed", 0.5, "must be an integer, got 0.5"],
    ["min_p", -0.1, "must be at least 0 and at most 1, got -0.1"],
    ["min_p", 1.5, "must be at least 0 and at most 1, got 1.5"],
    ["frequency_penalty", 2.1, "must be at least -2 and at most 2, got 2.1"],
    ["presence_penalty", -2.1, "must be at least -2 and at most 2, got -2.1"],
    ["repetition_penalty", 2.1, "must be at least 0 and at most 2, got 2.1"],
    ["repetition_penalty", -0.1, "must be at least 0 and at most 2, got -0.1"],
    ["repetition_penalty", "1", 'must be a number, got "1"'],
    ["min_new_tokens", -1, "must be at least 0, got -1"],
    ["min_new_tokens", 128, "must be 0 or below the 128 tokens allowed, got 128"],
    ["no_stop_trim", 0, "must be true or false, got 0"],
    ["spaces_between_special_tokens", "x", 'must be true or false, got "x"'],
    ["logit_bias", [], "must be an object, got an empty list"],
    [
      "logit_bias",
      { "65536": 1 },
      'must be an object with token ids below 65536 as names, got "65536"',
    ],
    ["logit_bias", { x: 1 }, 'must be an object with token ids below 65536 as names, got "x"'],
  ])("%s: %j is refused", async (name, value, problem) => {
    const response = await generate(new ScriptedEngine(), { [name]: value });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toBe(`sampling_params.${name} ${problem}`);
  });

  test.each([
    [
      { min_new_tokens: 5, max_new_tokens: 5 },
      "sampling_params.min_new_tokens must be 0 or below the 5 tokens allowed, got 5",
    ],
    [{ logit_bias: { "7": "1" } }, 'sampling_params.logit_bias.7 must be a number, got "1"'],
    [
      { logit_bias: { "7": 1e39 } },
      "sampling_params.logit_bias.7 must be a finite 32-bit number, got 1e+39",
    ],
    [{ stop: [1] }, "sampling_params.stop[0] must be a string, got 1"],
    [{ stop_token_ids: [1, "2"] }, 'sampling_params.stop_token_ids[1] must be an integer, got "2"'],
    [
      { stop_token_ids: [99_999] },
      "sampling_params.stop_token_ids[0] must be at least 0 and at most 65535, got 99999",
    ],
    [
      { stop_token_ids: [-1] },
      "sampling_params.stop_token_ids[0] must be at least 0 and at most 65535, got -1",
    ],
  ])("%j is refused by the element", async (params, message) => {
    const response = await generate(new ScriptedEngine(), params);
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toBe(message);
  });

  test.each([
    ["stop_regex", "a"],
    ["custom_params", { a: 1 }],
  ])("%s: %j is not supported yet", async (name, value) => {
    const response = await generate(new ScriptedEngine(), { [name]: value });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toBe(
      `Cannot use sampling_params.${name}: it is not supported yet`,
    );
  });

  test("an unknown field is refused and named", async () => {
    const response = await generate(new ScriptedEngine(), { max_tokens: 5 });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toBe(
      "Cannot use sampling_params.max_tokens: it is not a known field",
    );
  });
});

test("max_new_tokens ends a completion with the reason length", async () => {
  const response = await generate(new ScriptedEngine(), { max_new_tokens: 2, ignore_eos: true });
  const { text, meta_info } = await answer<GenerateAnswer>(response);
  expect(text).toBe("ab");
  expect(meta_info.finish_reason).toEqual({ type: "length", length: 2 });
  expect(meta_info.completion_tokens).toBe(2);
});

test("max_new_tokens is 128 by default", async () => {
  const engine = new ScriptedEngine();
  const text = "x".repeat(1000);
  const response = await post(createApp(engine), "/generate", { text });
  expect((await answer<GenerateAnswer>(response)).meta_info.completion_tokens).toBe(128);
});
