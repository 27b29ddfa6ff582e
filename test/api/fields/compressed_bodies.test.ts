/** Bodies with a Content-Encoding, at every endpoint that reads one, also over a socket. */
import { gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { serve } from "../../../src/node/serve/http.ts";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { bothForms } from "../../support/server/error_bodies.ts";

const messages = [{ role: "user", content: "hello" }];

const BODIES = [
  ["/generate", { text: "a" }],
  ["/v1/chat/completions", { messages }],
  ["/v1/completions", { prompt: "a" }],
  ["/tokenize", { prompt: "a" }],
  ["/v1/tokenize", { prompt: "a" }],
  ["/detokenize", { tokens: [97] }],
  ["/v1/detokenize", { tokens: [97] }],
  ["/abort_request", { abort_all: true }],
  ["/parse_function_call", { text: "a", tools: [], tool_call_parser: "qwen25" }],
  ["/separate_reasoning", { text: "a", reasoning_parser: "deepseek-r1" }],
] as const;

function coded(coding: string, body: Uint8Array): RequestInit {
  const headers = { "content-type": "application/json", "content-encoding": coding };
  return { method: "POST", headers, body: body as BodyInit };
}

describe.each(BODIES)("POST %s", (path, body) => {
  const app = createApp(new ScriptedEngine(), { maxBodyBytes: 1000 });
  const json = JSON.stringify(body);

  test("reads gzip, as what it stands for", async () => {
    const plain = await app.request(path, coded("identity", Buffer.from(json)));
    const zipped = await app.request(path, coded("gzip", gzipSync(json)));
    expect(zipped.status, await zipped.text()).toBe(plain.status);
    expect(plain.status).toBe(200);
  });

  test("names the codings that it reads instead of br", async () => {
    const response = await app.request(path, coded("br", Buffer.from(json)));
    expect(response.status).toBe(415);
    expect(response.headers.get("accept-encoding")).toBe("gzip, deflate");
    const message =
      'Cannot read the request body: its Content-Encoding is "br", and only gzip, deflate are read';
    const expected = bothForms({ message, type: "UnsupportedMediaTypeError", status: 415 });
    expect(await response.json()).toEqual(expected);
  });

  test("counts the bytes of what it stands for", async () => {
    const bomb = gzipSync(`{"text":"${"x".repeat(1000)}"}`);
    expect(bomb.length).toBeLessThan(100);
    expect((await app.request(path, coded("gzip", bomb))).status).toBe(413);
  });
});

test("over a socket", async () => {
  const app = createApp(new ScriptedEngine());
  const server = await serve(app, { host: "127.0.0.1", port: 0 });
  try {
    const text = "a".repeat(3000);
    const body = gzipSync(JSON.stringify({ text, sampling_params: { max_new_tokens: 1 } }));
    const response = await fetch(`${server.url}/generate`, coded("gzip", body));
    expect(response.status).toBe(200);
    expect(await response.json()).toMatchObject({ meta_info: { prompt_tokens: 3000 } });
    const broken = await fetch(`${server.url}/generate`, coded("gzip", body.subarray(0, -9)));
    expect(broken.status).toBe(400);
  } finally {
    await server.close();
  }
});
