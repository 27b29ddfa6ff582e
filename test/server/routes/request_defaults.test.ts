import { describe, expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { type RequestDefaults, withDefaults } from "../../../src/server/fields/request_defaults.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { post } from "../../support/server/http_client.ts";

const CHAT = { messages: [{ role: "user", content: "a" }] };

/** The request that reaches the engine behind an endpoint. */
async function asked(defaults: RequestDefaults, path: string, body: object) {
  const engine = new ScriptedEngine({ model: { defaults: { temperature: 0.6, topK: 20 } } });
  await post(createApp(withDefaults(engine, defaults)), path, body);
  return engine.requests[0]!;
}

describe("withDefaults()", () => {
  test("without defaults is the engine itself", () => {
    const engine = new ScriptedEngine();
    expect(withDefaults(engine, {})).toBe(engine);
  });

  test("/generate gets what it does not say, and keeps what it says", async () => {
    const samplingParams = { temperature: 0.5, top_p: 0.9, max_new_tokens: 7, stop: ["x"] };
    const sampling = { temperature: 0 };
    const { sampling: got } = await asked({ samplingParams }, "/generate", {
      text: "a",
      sampling_params: sampling,
    });
    expect(got).toEqual({ temperature: 0, topP: 0.9, maxNewTokens: 7, stop: ["x"] });
  });

  test("/generate without sampling_params gets them all", async () => {
    const { sampling } = await asked({ samplingParams: { top_k: 3 } }, "/generate", { text: "a" });
    expect(sampling).toEqual({ topK: 3 });
  });

  test("chat prefers them to the checkpoint's, and the request to both", async () => {
    const samplingParams = { temperature: 0.5, top_k: 3, min_p: 0.1, max_new_tokens: 9 };
    const { sampling } = await asked({ samplingParams }, "/v1/chat/completions", CHAT);
    expect(sampling).toMatchObject({ temperature: 0.5, topK: 3, minP: 0.1, maxNewTokens: 9 });
    const said = { ...CHAT, temperature: 0, top_k: 1, max_tokens: 4 };
    const other = await asked({ samplingParams }, "/v1/chat/completions", said);
    expect(other.sampling).toMatchObject({ temperature: 0, topK: 1, minP: 0.1, maxNewTokens: 4 });
  });

  test("completions prefer their limit to the documented one, and the request to both", async () => {
    const samplingParams = { max_new_tokens: 9, top_p: 0.5 };
    const path = "/v1/completions";
    const { sampling } = await asked({ samplingParams }, path, { prompt: "a" });
    expect(sampling).toMatchObject({ maxNewTokens: 9, topP: 0.5 });
    const said = await asked({ samplingParams }, path, { prompt: "a", max_tokens: 3 });
    expect(said.sampling).toMatchObject({ maxNewTokens: 3, topP: 0.5 });
    expect((await asked({}, path, { prompt: "a" })).sampling).toMatchObject({ maxNewTokens: 16 });
  });

  test("a request's own constraint takes the place of the preferred one", async () => {
    const samplingParams = { regex: "a+" };
    const own = { text: "a", sampling_params: { ebnf: 'root ::= "b"' } };
    const { sampling } = await asked({ samplingParams }, "/generate", own);
    expect(sampling).toEqual({ ebnf: 'root ::= "b"' });
    const chosen = { ...CHAT, guided_choice: ["b"] };
    const choice = await asked({ samplingParams }, "/v1/chat/completions", chosen);
    expect(choice.sampling).not.toHaveProperty("regex");
    const tag = { text: "a", sampling_params: { structural_tag: "{}" } };
    const tagged = await asked({ samplingParams }, "/generate", tag);
    expect(tagged.sampling).toEqual({ structuralTag: "{}" });
    const none = await asked({ samplingParams }, "/generate", { text: "a" });
    expect(none.sampling).toEqual({ regex: "a+" });
  });

  test.each([
    [{ temperature: -1 }, "preferred_sampling_params.temperature must be at least 0, got -1"],
    [{ temprature: 1 }, "Cannot use preferred_sampling_params.temprature: it is not a known field"],
    [{ n: 2 }, "preferred_sampling_params.n"],
  ])("refuses %j at once", (samplingParams, message) => {
    expect(() => withDefaults(new ScriptedEngine(), { samplingParams })).toThrow(message);
  });

  test("the stream interval is that of requests that bring none", async () => {
    const server = { streamInterval: 8 };
    expect((await asked(server, "/generate", { text: "a" })).streamInterval).toBe(8);
    const own = { text: "a", sampling_params: { stream_interval: 2 } };
    expect((await asked(server, "/generate", own)).streamInterval).toBe(2);
    const batch = { text: ["a"], sampling_params: [{ stream_interval: 3 }] };
    expect((await asked({}, "/generate", batch)).streamInterval).toBe(3);
  });
});
