/** `priority` of both endpoints. */
import { expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { errorMessage, post } from "../../support/server/http_client.ts";

test.each([
  ["/generate", { text: "a" }],
  ["/v1/chat/completions", { messages: [{ role: "user", content: "a" }] }],
] as const)("%s takes any whole number", async (path, body) => {
  const engine = new ScriptedEngine();
  const app = createApp(engine);
  for (const priority of [7, -7, 0, null]) {
    expect((await post(app, path, { ...body, priority })).status).toBe(200);
  }
  expect(engine.requests.map(({ priority }) => priority)).toEqual([7, -7, 0, undefined]);
  const refused = await post(app, path, { ...body, priority: 0.5 });
  expect(refused.status).toBe(400);
  expect(await errorMessage(refused)).toBe("priority must be an integer, got 0.5");
});

test("one priority serves a batch and its samples", async () => {
  const engine = new ScriptedEngine();
  const body = { text: ["a", "b"], sampling_params: { n: 2 }, priority: 3 };
  await post(createApp(engine), "/generate", body);
  expect(engine.requests.map(({ priority }) => priority)).toEqual([3, 3, 3, 3]);
});
