/** Names that other servers have for fields of this one. */
import { describe, expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { errorMessage, post } from "../../support/server/http_client.ts";

const CHAT = "/v1/chat/completions";
const COMPLETIONS = "/v1/completions";
const BODIES: Readonly<Record<string, object>> = {
  [CHAT]: { messages: [{ role: "user", content: "hello" }] },
  [COMPLETIONS]: { prompt: "hello" },
};

async function send(path: string, fields: object) {
  const engine = new ScriptedEngine();
  const response = await post(createApp(engine), path, { ...BODIES[path], ...fields });
  return { response, engine };
}

async function sampling(path: string, fields: object) {
  const { response, engine } = await send(path, fields);
  expect(response.status, await response.clone().text()).toBe(200);
  return engine.requests[0]!.sampling!;
}

async function refusal(path: string, fields: object): Promise<string> {
  const { response, engine } = await send(path, fields);
  expect(response.status).toBe(400);
  expect(engine.requests).toEqual([]);
  return errorMessage(response);
}

const schema = { type: "object", properties: { a: { type: "integer" } } };
const text = JSON.stringify(schema);
const tag = '{"structures":[],"triggers":[]}';

describe.each([CHAT, COMPLETIONS])("%s", (path) => {
  test.each([
    [{ guided_json: schema }, { jsonSchema: text }],
    [{ guided_json: text }, { jsonSchema: text }],
    [{ guided_json: true }, { jsonSchema: true }],
    [{ guided_regex: "a+" }, { regex: "a+" }],
    [{ guided_grammar: 'root ::= "a"' }, { ebnf: 'root ::= "a"' }],
    [{ guided_choice: ["yes", "no"] }, { choice: ["yes", "no"] }],
    [{ structured_outputs: { json: schema } }, { jsonSchema: text }],
    [{ structured_outputs: { json_object: true } }, { jsonSchema: { type: "object" } }],
    [{ structured_outputs: { regex: "a+", json: null } }, { regex: "a+" }],
    [{ structured_outputs: { choice: ["a", "b"] } }, { choice: ["a", "b"] }],
    [{ structured_outputs: { grammar: "g", json_object: false } }, { ebnf: "g" }],
    [{ structured_outputs: { structural_tag: tag } }, { structuralTag: tag }],
    [{ structured_outputs: { regex: "a", disable_fallback: true } }, { regex: "a" }],
    [{ repeat_penalty: 1.1 }, { repetitionPenalty: 1.1 }],
    [{ n_predict: 7 }, { maxNewTokens: 7 }],
    [{ n_predict: -1 }, { maxNewTokens: null }],
  ])("takes %j", async (fields, wanted) => {
    expect(await sampling(path, fields)).toEqual({ ...(await sampling(path, {})), ...wanted });
  });

  test.each([
    { repeat_penalty: 1.1, repetition_penalty: 1.1 },
    { n_predict: 7, max_tokens: 7 },
    { guided_regex: "a", regex: "a" },
    { guided_grammar: "g", ebnf: "g" },
    { guided_json: text, json_schema: text },
    { guided_json: schema, response_format: { type: "json_schema", json_schema: { schema } } },
    { guided_choice: ["a"], structured_outputs: { choice: ["a"] } },
    { guided_regex: "", regex: "a", guided_json: "", structured_outputs: {} },
    { guided_regex: null, guided_choice: null, structured_outputs: null, n_predict: null },
  ])("takes %j, which says one thing twice or nothing", async (fields) => {
    await sampling(path, fields);
  });

  test.each([
    [
      { repeat_penalty: 1.1, repetition_penalty: 1.2 },
      "repeat_penalty must be what repetition_penalty is",
    ],
    [{ repeat_penalty: 3 }, "repeat_penalty must be at least 0 and at most 2, got 3"],
    [{ n_predict: 7, max_tokens: 8 }, "n_predict must be what max_tokens is"],
    [{ n_predict: -1, max_tokens: 8 }, "n_predict must be what max_tokens is"],
    [{ n_predict: -2 }, "n_predict must be at least 1, got -2"],
    [{ n_predict: "7" }, 'n_predict must be an integer, got "7"'],
    [{ guided_regex: "a", regex: "b" }, "can be set, got regex and guided_regex"],
    [{ guided_regex: "a", guided_choice: ["a"] }, "got guided_regex and guided_choice"],
    [
      { guided_grammar: "g", response_format: { type: "json_object" } },
      "Only one of regex, json_schema, or ebnf can be set, got response_format and guided_grammar",
    ],
    [{ structured_outputs: { regex: "a", choice: ["a"] } }, "can be set, got regex and choice"],
    [
      { structured_outputs: { regex: "a" }, guided_choice: ["a"] },
      "got guided_choice and structured_outputs",
    ],
    [{ guided_choice: [] }, "guided_choice cannot be empty"],
    [{ guided_choice: ["a", 1] }, "guided_choice[1] must be a string, got 1"],
    [{ guided_choice: Array(10_001).fill("a") }, "guided_choice must be at most 10000 texts"],
    [{ guided_choice: ["a".repeat(100_001)] }, "guided_choice must be at most 100000 characters"],
    [{ guided_choice: "a" }, 'guided_choice must be a list, got "a"'],
    [{ guided_json: [1] }, "guided_json must be a schema or its JSON text, got a list"],
    [{ guided_regex: 1 }, "guided_regex must be a string, got 1"],
    [{ structured_outputs: { xml: 1 } }, "Cannot use structured_outputs.xml: it is not a known"],
    [{ structured_outputs: { choice: [1] } }, "structured_outputs.choice[0] must be a string"],
    [
      { structured_outputs: { json: {}, disable_any_whitespace: true } },
      "Cannot use structured_outputs.disable_any_whitespace",
    ],
    [
      { structured_outputs: { json: {}, whitespace_pattern: " " } },
      "Cannot use structured_outputs.whitespace_pattern",
    ],
  ])("refuses %j", async (fields, message) => {
    expect(await refusal(path, fields)).toContain(message);
  });

  test("schemas that nest beyond any stack are refused where two are compared", async () => {
    const deep = `${'{"not":'.repeat(100_000)}{}${"}".repeat(100_000)}`;
    const body = `{"guided_json":${deep},"guided_regex":"a",${JSON.stringify(BODIES[path]).slice(1)}`;
    const response = await post(createApp(new ScriptedEngine()), path, body);
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain("it nests deeper than 512 levels");
  });
});

test("max_completion_tokens and n_predict are one limit", async () => {
  const both = { max_completion_tokens: 7, n_predict: 7, max_tokens: 9 };
  expect(await sampling(CHAT, both)).toMatchObject({ maxNewTokens: 7 });
  expect(await refusal(CHAT, { ...both, n_predict: 8 })).toContain(
    "n_predict must be what max_completion_tokens is",
  );
});

test("a choice is one form too many beside tools that must be called", async () => {
  const tools = [{ type: "function", function: { name: "f" } }];
  const engine = new ScriptedEngine();
  const app = createApp(engine, { toolCallParser: "qwen25" });
  const body = { ...BODIES[CHAT], tools, tool_choice: "required", guided_choice: ["a"] };
  const response = await post(app, CHAT, body);
  expect(response.status).toBe(400);
  expect(await errorMessage(response)).toContain("tool calls that are enforced");
});

test("/generate keeps its own names", async () => {
  for (const fields of [
    { guided_regex: "a" },
    { n_predict: 1 },
    { sampling_params: { guided_json: {} } },
    { sampling_params: { repeat_penalty: 1 } },
  ]) {
    const response = await post(createApp(new ScriptedEngine()), "/generate", {
      text: "a",
      ...fields,
    });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain("it is not a known field");
  }
});
