/** One list of requests, sent to the app as a function and to a server over a socket. */
import { describe, expect, test } from "vitest";
import { type RunningServer, serve } from "../../../src/node/serve/http.ts";
import { createApp } from "../../../src/server/app.ts";
import { ANSWERS } from "../../cases/http_answers.ts";
import type { HttpCase } from "../../cases/http_case.ts";
import { REFUSALS } from "../../cases/http_refusals.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";

type Send = (path: string, init: RequestInit) => Promise<Response>;

async function check(one: HttpCase, engine: ScriptedEngine, send: Send): Promise<void> {
  const { body, headers, method = body === undefined ? "GET" : "POST" } = one;
  const init: RequestInit = { method, headers: { ...headers } };
  if (body !== undefined) {
    init.headers = { "content-type": "application/json", ...headers };
    init.body = typeof body === "string" ? body : JSON.stringify(body);
  }
  const response = await send(one.path, init);
  const text = await response.text();
  expect(response.status, text).toBe(one.status);
  if (one.json !== undefined) expect(JSON.parse(text)).toMatchObject(one.json);
  if (one.text !== undefined) expect(text).toMatch(one.text);
  for (const [name, value] of Object.entries(one.answerHeaders ?? {})) {
    expect(response.headers.get(name)).toMatch(value);
  }
  expect(engine.running).toEqual([]);
}

describe("as a function of Request", () => {
  test.each([...ANSWERS, ...REFUSALS])("$name", async (one) => {
    const engine = new ScriptedEngine(one.options);
    const app = createApp(engine, one.options);
    await check(one, engine, async (path, init) => app.request(path, init));
  });
});

describe("over a socket", () => {
  test.each([...ANSWERS, ...REFUSALS])("$name", async (one) => {
    const engine = new ScriptedEngine(one.options);
    const app = createApp(engine, one.options);
    const server: RunningServer = await serve(app, { host: "127.0.0.1", port: 0 });
    try {
      await check(one, engine, (path, init) => fetch(server.url + path, init));
    } finally {
      await server.close();
    }
  });
});
