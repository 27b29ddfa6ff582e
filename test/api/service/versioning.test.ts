/** Specification 9: what the paths and answers say of versions. */
import { expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { startCommand } from "../../support/package/run_command.ts";
import { answer, post } from "../../support/server/http_client.ts";

const messages = [{ role: "user", content: "a" }];

test("the chat endpoint has the prefix /v1, and no other", async () => {
  const app = createApp(new ScriptedEngine());
  expect((await post(app, "/v1/chat/completions", { messages })).status).toBe(200);
  for (const path of ["/chat/completions", "/v2/chat/completions", "/v1/v1/chat/completions"]) {
    expect((await post(app, path, { messages })).status).toBe(404);
  }
});

test("calls of tools are streamed", async () => {
  const text = '<tool_call>{"name": "now", "arguments": {}}</tool_call>';
  const engine = new ScriptedEngine({ script: () => ({ pieces: [text] }) });
  const app = createApp(engine, { toolCallParser: "qwen25" });
  const tools = [{ type: "function", function: { name: "now" } }];
  const response = await post(app, "/v1/chat/completions", { messages, tools, stream: true });
  expect(await response.text()).toContain('"finish_reason":"tool_calls"');
});

test("answers name the version of the weights, the server's description its own", async () => {
  const description = { version: "1.2.3" };
  const app = createApp(new ScriptedEngine(), { description });
  expect(await answer(await post(app, "/generate", { text: "a" }))).toMatchObject({
    meta_info: { weight_version: "default" },
  });
  expect(await answer(await post(app, "/v1/chat/completions", { messages }))).toMatchObject({
    metadata: { weight_version: "default" },
  });
  expect(await answer(await app.request("/get_server_info"))).toMatchObject(description);
});

test("wisp --version prints the package's", async () => {
  const command = startCommand(["--version"]);
  expect(await command.code).toBe(0);
  expect(command.stdout()).toMatch(/^\d+\.\d+\.\d+\n$/);
});
