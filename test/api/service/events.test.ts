/** Specification 6: no callbacks; what comes bit by bit comes as chunks of the answer itself. */
import { expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { errorMessage, post } from "../../support/server/http_client.ts";

const CALLS = [
  ["/generate", { text: "abc", stream: true }],
  [
    "/v1/chat/completions",
    { messages: [{ role: "user", content: "abc" }], stream: true, stream_options: null },
  ],
  ["/v1/completions", { prompt: "abc", stream: true }],
] as const;

test.each(CALLS)("%s streams data lines only, each ended by an empty line", async (path, body) => {
  const response = await post(createApp(new ScriptedEngine()), path, body);
  expect(response.headers.get("content-type")).toMatch(/^text\/event-stream/);
  expect(response.headers.get("cache-control")).toBe("no-cache");
  const lines = (await response.text()).split("\n\n");
  expect(lines.pop()).toBe("");
  expect(lines.pop()).toBe("data: [DONE]");
  for (const line of lines) expect(JSON.parse(/^data: (.*)$/.exec(line)![1]!)).toBeTypeOf("object");
});

test.each(CALLS)("%s sends each chunk as soon as it is there", async (path, body) => {
  let release = () => {};
  const gate = new Promise<void>((resolve) => {
    release = resolve;
  });
  const engine = new ScriptedEngine({
    script: () => ({ pieces: ["one", "two"], gate: (i) => (i === 1 ? gate : Promise.resolve()) }),
  });
  const response = await post(createApp(engine), path, body);
  const reader = response.body!.pipeThrough(new TextDecoderStream()).getReader();
  let text = "";
  while (!text.includes("one")) text += (await reader.read()).value;
  expect(text).not.toContain("two");
  release();
  for (let part = await reader.read(); !part.done; part = await reader.read()) text += part.value;
  expect(text).toMatch(/two.*\[DONE\]\n\n$/s);
});

test.each(["webhook", "callback_url"])("a request cannot ask for a %s", async (name) => {
  for (const [path, body] of CALLS) {
    const request = { ...body, [name]: "http://a.test" };
    const response = await post(createApp(new ScriptedEngine()), path, request);
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toBe(`Cannot use ${name}: it is not a known field`);
  }
});
