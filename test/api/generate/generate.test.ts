/** Section 4.1 of the specification: the endpoint `/generate`. */
import { describe, expect, test, vi } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { answer, type GenerateAnswer, post } from "../../support/server/http_client.ts";

test.each(["POST", "PUT"])("%s /generate answers with the documented object", async (method) => {
  const app = createApp(new ScriptedEngine());
  const response = await post(app, "/generate", { text: "ab", rid: "r" }, { method });
  expect(response.status).toBe(200);
  expect(response.headers.get("content-type")).toBe("application/json");
  expect(await response.json()).toEqual({
    text: "ab",
    output_ids: [97, 98, 1],
    meta_info: {
      id: "r",
      finish_reason: { type: "stop", matched: 1 },
      prompt_tokens: 2,
      weight_version: "default",
      completion_tokens: 3,
      cached_tokens: 0,
      e2e_latency: expect.any(Number),
    },
  });
});

test("/generate needs no Content-Type", async () => {
  const body = new TextEncoder().encode('{"text": "ab"}');
  const init: RequestInit = { method: "POST", body };
  expect((await createApp(new ScriptedEngine()).request("/generate", init)).status).toBe(200);
});

test("/generate tells of an abort", async () => {
  const finish = { type: "abort", message: "Abort before prefill" } as const;
  const app = createApp(new ScriptedEngine({ script: () => ({ pieces: [], finish }) }));
  const { text, meta_info } = await answer<GenerateAnswer>(
    await post(app, "/generate", { text: "ab" }),
  );
  expect(text).toBe("");
  expect(meta_info.finish_reason).toEqual({
    type: "abort",
    message: "Abort before prefill",
    status_code: null,
    err_type: null,
  });
});

describe("a client that leaves", () => {
  const endless = { ignore_eos: true, max_new_tokens: null };

  test("stops its stream", async () => {
    const engine = new ScriptedEngine();
    const body = { text: "abc".repeat(1000), stream: true, rid: "r", sampling_params: endless };
    const reader = (await post(createApp(engine), "/generate", body)).body!.getReader();
    await reader.read();
    expect(engine.running).toEqual(["r"]);
    await reader.cancel();
    expect(engine.running).toEqual([]);
    expect(engine.cutShort).toEqual(["r"]);
  });

  test("stops every item of a streamed batch", async () => {
    const engine = new ScriptedEngine();
    const body = { text: ["abc", "def", "ghi"], stream: true, rid: "r", sampling_params: endless };
    const reader = (await post(createApp(engine), "/generate", body)).body!.getReader();
    await reader.read();
    await reader.cancel();
    expect(engine.running).toEqual([]);
    expect(engine.cutShort.toSorted()).toEqual(["r_0", "r_1", "r_2"]);
  });

  test("stops a stream that waits for its next token", async () => {
    const gate = (chunk: number) => (chunk === 1 ? new Promise<void>(() => {}) : Promise.resolve());
    const engine = new ScriptedEngine({ script: () => ({ gate }) });
    const reportError = vi.fn();
    const app = createApp(engine, { reportError });
    const body = { text: "abc", stream: true, rid: "r" };
    const reader = (await post(app, "/generate", body)).body!.getReader();
    await reader.read();
    const pending = reader.read();
    await reader.cancel();
    expect(engine.cutShort).toEqual(["r"]);
    expect((await pending).done).toBe(true);
    await new Promise((resolve) => setTimeout(resolve, 0));
    expect(reportError).not.toHaveBeenCalled();
  });

  test.each([false, true])("stops what has not answered yet (stream: %s)", async (stream) => {
    let reached = () => {};
    const waiting = new Promise<void>((resolve) => {
      reached = resolve;
    });
    const items = ["abc", "def"];
    let started = 0;
    const gate = () => {
      started += 1;
      if (started === items.length) reached();
      return new Promise<void>(() => {});
    };
    const engine = new ScriptedEngine({ script: () => ({ gate }) });
    const client = new AbortController();
    const body = { text: items, stream, rid: "r" };
    const response = post(createApp(engine), "/generate", body, { signal: client.signal });
    await waiting;
    client.abort();
    expect((await response).status).toBe(499);
    expect(engine.running).toEqual([]);
    expect(engine.cutShort).toEqual(["r_0", "r_1"]);
  });

  test("starts nothing when it has left before", async () => {
    const engine = new ScriptedEngine();
    const signal = AbortSignal.abort();
    expect((await post(createApp(engine), "/generate", { text: "a" }, { signal })).status).toBe(
      499,
    );
    expect(engine.running).toEqual([]);
  });
});

test("an answered request leaves nothing running", async () => {
  const engine = new ScriptedEngine();
  await post(createApp(engine), "/generate", { text: ["a", "b"] });
  expect(engine.running).toEqual([]);
  expect(engine.cutShort).toEqual([]);
});
