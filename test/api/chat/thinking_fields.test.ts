/** Fields of a chat request that say how much to think: `reasoning_effort` and `reasoning`. */
import { describe, expect, test } from "vitest";
import { type AppOptions, createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { answer, errorMessage, post } from "../../support/server/http_client.ts";

const PATH = "/v1/chat/completions";

describe("how much to think", () => {
  const fields = { messages: [{ role: "user", content: "hello" }] };
  const variables = async (
    body: object,
    thinkingVariables: readonly string[],
    options: AppOptions = {},
  ) => {
    const engine = new ScriptedEngine({ model: { thinkingVariables } });
    const response = await post(createApp(engine, options), PATH, { ...fields, ...body });
    if (response.status !== 200) return errorMessage(response);
    return engine.requests[0]!.templateVariables;
  };

  test.each<[object, string[], object | undefined]>([
    [{ reasoning_effort: "high" }, ["reasoning_effort"], { reasoning_effort: "high" }],
    [{ reasoning: { effort: "low" } }, ["reasoning_effort"], { reasoning_effort: "low" }],
    [{ reasoning: { enabled: true } }, ["thinking"], { thinking: true }],
    [{ reasoning: { enabled: false } }, ["enable_thinking"], { enable_thinking: false }],
    [{ reasoning_effort: "none" }, ["enable_thinking"], { enable_thinking: false }],
    [
      { reasoning: { enabled: true }, chat_template_kwargs: { thinking: true, a: 1 } },
      ["thinking"],
      { thinking: true, a: 1 },
    ],
    [
      { reasoning: { enabled: true, effort: "low" }, reasoning_effort: "low" },
      ["thinking", "reasoning_effort"],
      { thinking: true, reasoning_effort: "low" },
    ],
  ])("%j becomes variables of the chat template", async (body, names, expected) => {
    expect(await variables(body, names)).toEqual(expected);
  });

  test("is nothing to ask of a model that always thinks", async () => {
    const options = { reasoningParser: "deepseek-r1" } as const;
    expect(await variables({ reasoning: { enabled: true } }, [], options)).toBeUndefined();
    expect(await variables({ reasoning: { enabled: false } }, [], options)).toContain(
      "Cannot use reasoning turned off",
    );
  });

  test("is nothing to take from a model that does not think unless it is asked to", async () => {
    const off = [{ reasoning_effort: "none" }, { reasoning: { enabled: false } }];
    for (const body of off) {
      expect(await variables(body, [])).toBeUndefined();
      expect(await variables(body, [], { reasoningParser: "deepseek-v3" })).toBeUndefined();
      const thinker = new ScriptedEngine({ model: { family: "deepseek-r1" } });
      const response = await post(createApp(thinker), PATH, { ...fields, ...body });
      expect(await errorMessage(response)).toContain("Cannot use reasoning turned off");
    }
  });

  test.each(["minimal", "low", "medium", "high", "xhigh"])(
    "is a hint without an effect where the template knows no effort: %s",
    async (reasoning_effort) => {
      const told: string[] = [];
      const onIdleField = (name: string) => told.push(name);
      expect(await variables({ reasoning_effort }, [], { onIdleField })).toBeUndefined();
      expect(told).toEqual(["reasoning_effort"]);
      const body = { reasoning: { effort: reasoning_effort } };
      expect(await variables(body, ["thinking"], { onIdleField })).toBeUndefined();
      expect(told).toEqual(["reasoning_effort", "reasoning.effort"]);
    },
  );

  test.each(["minimal", "xhigh"])("has to be one that the template knows: %s", async (effort) => {
    expect(await variables({ reasoning_effort: effort }, ["reasoning_effort"])).toBe(
      `reasoning_effort must be one of none, low, medium, high, got "${effort}"`,
    );
  });

  test("tells the parser that thoughts come", async () => {
    const script = () => ({ pieces: ["Hm.</think>Yes."] });
    const engine = new ScriptedEngine({ script, model: { thinkingVariables: ["thinking"] } });
    const app = createApp(engine, { reasoningParser: "deepseek-v3" });
    const body = { ...fields, reasoning: { enabled: true } };
    expect(await answer(await post(app, PATH, body))).toMatchObject({
      choices: [{ message: { reasoning_content: "Hm.", content: "Yes." } }],
    });
  });

  test.each<[object, string]>([
    [{ reasoning: { enabled: true } }, "Cannot use reasoning turned on: the model's chat template"],
    [{ reasoning_effort: "most" }, "reasoning_effort must be one of none, low, medium, high"],
    [{ reasoning: { effort: 1 } }, "reasoning.effort must be a string, got 1"],
    [{ reasoning: { enabled: "yes" } }, "reasoning.enabled must be true or false"],
    [{ reasoning: { most: 1 } }, "Cannot use reasoning.most: it is not a known field"],
    [{ thinking: { type: "on" } }, "thinking.type must be one of enabled, disabled, adaptive"],
    [{ max_thinking_tokens: -1 }, "max_thinking_tokens must be at least 0, got -1"],
    [
      { max_thinking_tokens: 2, thinking: { budget_tokens: 3 } },
      "Cannot use thinking.budget_tokens: it contradicts max_thinking_tokens",
    ],
    [
      { reasoning: { effort: "low" }, reasoning_effort: "high" },
      "Cannot use reasoning.effort: it contradicts",
    ],
    [
      { reasoning: { enabled: true }, reasoning_effort: "none" },
      "Cannot use reasoning.enabled: it contradicts",
    ],
    [
      { reasoning: { enabled: false, effort: "low" } },
      "Cannot use reasoning.enabled: it contradicts",
    ],
  ])("%j is refused", async (body, message) => {
    expect(await variables(body, [])).toContain(message);
  });

  test("said twice in different ways is refused", async () => {
    const body = { reasoning: { enabled: true }, chat_template_kwargs: { thinking: false } };
    expect(await variables(body, ["thinking"])).toBe(
      "Cannot use chat_template_kwargs.thinking: it contradicts reasoning_effort or reasoning",
    );
  });
});

describe("how many tokens a thought may have", () => {
  const messages = [{ role: "user", content: "hello" }];
  const limit = async (body: object, options: AppOptions = {}, family = "unknown") => {
    const engine = new ScriptedEngine({ model: { family } });
    const response = await post(createApp(engine, options), PATH, { messages, ...body });
    if (response.status !== 200) return errorMessage(response);
    return engine.requests[0]!.maxThinkingTokens;
  };
  const names = [
    { max_thinking_tokens: 7 },
    { reasoning: { max_tokens: 7 } },
    { thinking: { type: "adaptive", budget_tokens: 7 } },
    { max_thinking_tokens: 7, reasoning: { max_tokens: 7 } },
  ];

  test.each(names)("is said by %j", async (body) => {
    expect(await limit(body, { reasoningParser: "qwen3" })).toBe(7);
    expect(await limit({}, { reasoningParser: "qwen3" })).toBeUndefined();
  });

  test("says nothing to a model that does not think", async () => {
    const told: string[] = [];
    const onIdleField = (name: string) => void told.push(name);
    expect(await limit({ reasoning: { max_tokens: 7 } }, { onIdleField })).toBeUndefined();
    expect(told).toEqual(["reasoning.max_tokens"]);
  });

  test("is refused where it is not known where a thought ends", async () => {
    expect(await limit({ max_thinking_tokens: 7 }, {}, "deepseek-r1")).toBe(
      "Cannot use max_thinking_tokens: the server has no --reasoning-parser",
    );
    const harmony = { reasoningParser: "gpt-oss" } as const;
    expect(await limit({ thinking: { budget_tokens: 7 } }, harmony)).toBe(
      "Cannot use thinking.budget_tokens: thoughts of gpt-oss are messages on channels",
    );
  });
});
