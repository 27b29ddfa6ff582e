/** What an error says of the field to blame, by the name that the client has for it. */
import { describe, expect, test } from "vitest";
import { InvalidRequestError } from "../../../src/errors.ts";
import { GrammarError } from "../../../src/grammar/grammar_error.ts";
import { type AppOptions, createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { answer, post } from "../../support/server/http_client.ts";

const CHAT = "/v1/chat/completions";
const COMPLETIONS = "/v1/completions";
const messages = [{ role: "user", content: "hello" }];

interface Named {
  readonly param: string | null;
}

/** The field in the flat form, in OpenAI's, or in both. */
async function blamed(response: Response): Promise<readonly (string | null)[]> {
  expect(response.status).toBe(400);
  const body = await answer<Partial<Named> & { readonly error: Named }>(response);
  return body.param === undefined ? [body.error.param] : [body.param, body.error.param];
}

function failing(error: unknown, options: AppOptions = {}) {
  const script = () => ({ failure: { at: 0, error } });
  return createApp(new ScriptedEngine({ script }), options);
}

describe("a field that the server checks", () => {
  const app = createApp(new ScriptedEngine());

  test.each([
    [{ messages, temperature: "hot" }, "temperature"],
    [{ messages, top_p: 2 }, "top_p"],
    [{ messages, n: 0 }, "n"],
    [{ messages, nonsense: 1 }, "nonsense"],
    [{ messages: [{ role: "user", content: 5 }] }, "messages[0].content"],
    [{ messages: [{ role: "king", content: "a" }] }, "messages[0].role"],
    [{ messages, tools: [{ type: "x" }] }, "tools[0].type"],
    [{ messages, stop: ["a", 5] }, "stop[1]"],
    [{ messages, lora_path: "a" }, "lora_path"],
    [{ messages, logit_bias: { 70000: 1 } }, "logit_bias"],
    [
      { messages, tools: [{ type: "function", function: { name: "f" } }], tool_choice: "required" },
      "tool_choice",
    ],
  ])("a chat with %j names it", async (body, param) => {
    expect(await blamed(await post(app, CHAT, body))).toEqual([param, param]);
  });

  test.each([
    [{ prompt: 5 }, "prompt"],
    [{ prompt: "a", best_of: 3 }, "best_of"],
    [{ prompt: "a", max_tokens: "all" }, "max_tokens"],
    [{ prompt: "a", seed: 0.5 }, "seed"],
  ])("a completion with %j names it", async (body, param) => {
    expect(await blamed(await post(app, COMPLETIONS, body))).toEqual([param, param]);
  });

  test.each([
    ["/tokenize", { prompt: 5 }, "prompt"],
    ["/v1/detokenize", { tokens: [70000] }, "tokens[0]"],
    ["/abort_request", { rid: 5 }, "rid"],
    ["/separate_reasoning", { text: 5, reasoning_parser: "deepseek-r1" }, "text"],
    ["/generate", { text: 5 }, "text"],
    ["/generate", { text: "a", sampling_params: { top_p: "x" } }, "sampling_params.top_p"],
  ])("%s with %j names it", async (path, body, param) => {
    expect(await blamed(await post(app, path, body))).toEqual([param, param]);
  });

  test.each([
    [{ text: "a", sampling_params: { top_p: 2 } }, "sampling_params.top_p"],
    [{ text: ["a"], sampling_params: [{ top_k: 0 }] }, "sampling_params[0].top_k"],
    [{ text: "a", image_data: "a.png" }, "image_data"],
  ])("/generate with %j names it in its only form", async (body, param) => {
    expect(await blamed(await post(app, "/generate", body))).toEqual([param]);
  });

  test("a body that is no JSON blames no field", async () => {
    expect(await blamed(await post(app, CHAT, "{"))).toEqual([null, null]);
  });
});

describe("a field that only the engine checks", () => {
  test.each([
    ["/generate", { text: "a" }, "maxNewTokens", "sampling_params.max_new_tokens"],
    ["/generate", { text: "a" }, "minNewTokens", "sampling_params.min_new_tokens"],
    ["/generate", { input_embeds: [[1, 2, 3, 4]] }, "inputEmbeds", "input_embeds"],
    ["/generate", { text: "a" }, "prompt", "text"],
    ["/generate", { input_ids: [1] }, "prompt", "input_ids"],
    ["/generate", { input_embeds: [[1, 2, 3, 4]] }, "prompt", "input_embeds"],
    [CHAT, { messages, max_tokens: 5 }, "maxNewTokens", "max_tokens"],
    [CHAT, { messages, max_completion_tokens: 5 }, "maxNewTokens", "max_completion_tokens"],
    [CHAT, { messages }, "minNewTokens", "min_tokens"],
    [CHAT, { messages }, "prompt", "messages"],
    [CHAT, { messages }, "messages", "messages"],
    [CHAT, { messages }, "templateVariables", "chat_template_kwargs"],
    [COMPLETIONS, { prompt: "a" }, "prompt", "prompt"],
    [COMPLETIONS, { prompt: "a" }, "maxNewTokens", "max_tokens"],
  ])("%s with %j and a wrong %s names %s", async (path, body, field, param) => {
    const app = failing(new InvalidRequestError(`${field} is wrong`, field));
    expect((await blamed(await post(app, path, body))).at(-1)).toBe(param);
  });

  test.each([
    ["/generate", { text: "a", sampling_params: { regex: "(" } }, "sampling_params.regex"],
    [
      "/generate",
      { text: ["a", "b"], sampling_params: [{}, { json_schema: "{}" }] },
      "sampling_params.json_schema",
    ],
    [CHAT, { messages, ebnf: "x" }, "ebnf"],
    [CHAT, { messages, response_format: { type: "json_object" } }, "response_format"],
    [COMPLETIONS, { prompt: "a", regex: "(" }, "regex"],
    [CHAT, { messages, guided_regex: "(" }, "guided_regex"],
    [COMPLETIONS, { prompt: "a", structured_outputs: { grammar: "x" } }, "structured_outputs"],
  ])("%s with the grammar of %j names where it stands", async (path, body, param) => {
    const app = failing(new GrammarError("Cannot read the pattern: it ends early"));
    expect((await blamed(await post(app, path, body))).at(-1)).toBe(param);
  });
});

test("what a sentence about a schema quotes stays as the client wrote it", async () => {
  const message = "Cannot enforce the schema: it is too large (at /properties/maxNewTokens)";
  const app = failing(new GrammarError(message));
  const response = await post(app, CHAT, { messages, json_schema: "{}" });
  expect(await response.json()).toMatchObject({ message, param: "json_schema" });
});

describe("more tokens than the context holds", () => {
  const app = createApp(new ScriptedEngine());
  const long = "x".repeat(5000);
  const tooLong = {
    type: "invalid_request_error",
    code: "context_length_exceeded",
    message: expect.stringMatching(
      /The input \(5000 tokens\) is longer than the model's context length \(4096 tokens\).*reduce the length of the messages/,
    ),
  };
  const tooMany = {
    type: "invalid_request_error",
    code: "context_length_exceeded",
    message:
      "Requested token count exceeds the model's maximum context length of 4096 tokens. You " +
      "requested a total of 5005 tokens: 5 tokens from the input and 5000 tokens for the " +
      "completion. This model's maximum context length is 4096 tokens. Please reduce the length " +
      "of the messages or completion",
  };

  test.each([
    [CHAT, { messages: [{ role: "user", content: long }] }, { ...tooLong, param: "messages" }],
    [COMPLETIONS, { prompt: long }, { ...tooLong, param: "prompt" }],
    [CHAT, { messages, max_tokens: 5000 }, { ...tooMany, param: "max_tokens" }],
    [
      CHAT,
      { messages, max_completion_tokens: 5000 },
      { ...tooMany, param: "max_completion_tokens" },
    ],
    [COMPLETIONS, { prompt: "hello", max_tokens: 5000 }, { ...tooMany, param: "max_tokens" }],
  ])("of %s are told in the words that clients look for", async (path, body, error) => {
    for (const stream of [false, true]) {
      const response = await post(app, path, { ...body, stream });
      expect(response.status).toBe(400);
      const { message, param } = error;
      expect(await response.json()).toMatchObject({
        object: "error",
        type: "BadRequestError",
        code: 400,
        message,
        param,
        error,
      });
    }
  });

  test("of /generate are told in the same words", async () => {
    const body = { text: "hello", sampling_params: { max_new_tokens: 5000 } };
    const response = await post(app, "/generate", body);
    expect(response.status).toBe(400);
    expect(await response.json()).toEqual({
      error: {
        message: tooMany.message,
        type: "invalid_request_error",
        param: "sampling_params.max_new_tokens",
        code: 400,
      },
    });
  });
});
