/** Section 4.2 of the specification: the endpoint `/v1/chat/completions`. */
import { expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { post } from "../../support/server/http_client.ts";

const PATH = "/v1/chat/completions";
const messages = [{ role: "user", content: "hello" }];

test("a bearer token without a configured key is no obstacle", async () => {
  const headers = { authorization: "Bearer anything" };
  const response = await post(createApp(new ScriptedEngine()), PATH, { messages }, { headers });
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toBe("application/json");
});

test("a client that leaves stops its stream", async () => {
  const engine = new ScriptedEngine();
  const body = { messages, stream: true, rid: "r" };
  const reader = (await post(createApp(engine), PATH, body)).body!.getReader();
  await reader.read();
  await reader.cancel();
  expect(engine.cutShort).toEqual(["r"]);
});

test("a client that leaves stops its completion", async () => {
  const client = new AbortController();
  const gate = async (chunk: number) => {
    if (chunk === 2) client.abort();
  };
  const engine = new ScriptedEngine({ script: () => ({ gate }) });
  const { signal } = client;
  const response = await post(createApp(engine), PATH, { messages, rid: "r" }, { signal });
  expect(response.status).toBe(499);
  expect(engine.cutShort).toEqual(["r"]);
});
