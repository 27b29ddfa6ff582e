/** `POST /abort_request`: requests end early, and their clients get what there is. */
import type { Hono } from "hono";
import { describe, expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import {
  answer,
  errorMessage,
  events,
  type GenerateAnswer,
  post,
} from "../../support/server/http_client.ts";

const CHAT = "/v1/chat/completions";
const COMPLETIONS = "/v1/completions";
const messages = [{ role: "user", content: "hello" }];

/** An engine whose generations stop before the chunk `at` until they are ended. */
function setUp({ at = 2 }: { readonly at?: number } = {}) {
  const waiting = new Promise<void>(() => {});
  const gate = (chunk: number) => (chunk === at ? waiting : Promise.resolve());
  const engine = new ScriptedEngine({ script: () => ({ gate }) });
  return { engine, app: createApp(engine) };
}

/** Waits until so many generations run. */
async function running(engine: ScriptedEngine, count: number): Promise<void> {
  while (engine.running.length < count) await new Promise((resolve) => setTimeout(resolve, 1));
  await new Promise((resolve) => setTimeout(resolve, 1));
}

async function abort(app: Hono, body: object): Promise<void> {
  const response = await post(app, "/abort_request", body);
  expect(response.status).toBe(200);
  expect(await response.text()).toBe("");
}

const reasons = (answers: readonly GenerateAnswer[]) =>
  answers.map(({ meta_info }) => meta_info.finish_reason!.type);

describe("a request that runs", () => {
  test("answers 200 with its text so far", async () => {
    const { engine, app } = setUp();
    const response = post(app, "/generate", { text: "abc", rid: "r" });
    await running(engine, 1);
    await abort(app, { rid: "r" });
    expect((await response).status).toBe(200);
    expect(await answer(await response)).toMatchObject({
      text: "ab",
      output_ids: [97, 98],
      meta_info: {
        id: "r",
        completion_tokens: 2,
        e2e_latency: expect.any(Number),
        finish_reason: { type: "abort", message: "Aborted", status_code: null, err_type: null },
      },
    });
    expect(engine.running).toEqual([]);
  });

  test("that waits for its first token answers too", async () => {
    const { engine, app } = setUp({ at: 0 });
    const response = post(app, "/generate", { text: "abc", rid: "r" });
    await running(engine, 1);
    await abort(app, { rid: "r" });
    const { text, meta_info } = await answer<GenerateAnswer>(await response);
    expect(text).toBe("");
    expect(meta_info.finish_reason!.type).toBe("abort");
  });

  test("ends its stream with the reason", async () => {
    const { engine, app } = setUp();
    const response = await post(app, "/generate", { text: "abc", rid: "r", stream: true });
    await running(engine, 1);
    await abort(app, { rid: "r" });
    const chunks = await events<GenerateAnswer>(response);
    expect(chunks.at(-1)).toMatchObject({
      text: "ab",
      meta_info: { finish_reason: { type: "abort" } },
    });
  });

  test.each([
    [CHAT, { messages }],
    [COMPLETIONS, { prompt: "hello" }],
  ])("of %s ends with the finish reason abort", async (path, body) => {
    for (const stream of [false, true]) {
      const { engine, app } = setUp();
      const response = post(app, path, { ...body, rid: "r", stream });
      await running(engine, 1);
      await abort(app, { rid: "r" });
      const answers = stream ? await events(await response) : [await answer(await response)];
      expect(answers.at(-1)).toMatchObject({
        choices: [{ finish_reason: "abort", matched_stop: null }],
      });
    }
  });

  test("may be named as the engine does, which its stream tells", async () => {
    const { engine, app } = setUp();
    const response = await post(app, "/generate", { text: "abc", stream: true });
    await running(engine, 1);
    await abort(app, { rid: engine.running[0] });
    const chunks = await events<GenerateAnswer>(response);
    expect(chunks.at(-1)!.meta_info.finish_reason!.type).toBe("abort");
  });
});

describe("an id", () => {
  const batch = { text: ["abc", "def", "ghi"], rid: "r" };

  test("of a batch ends all its items", async () => {
    const { engine, app } = setUp();
    const response = post(app, "/generate", batch);
    await running(engine, 3);
    await abort(app, { rid: "r" });
    expect(reasons(await answer(await response))).toEqual(["abort", "abort", "abort"]);
  });

  test("of an item ends that one", async () => {
    const { engine, app } = setUp();
    const response = post(app, "/generate", batch);
    await running(engine, 3);
    await abort(app, { rid: "r_1" });
    await new Promise((resolve) => setTimeout(resolve, 1));
    expect(engine.running).toEqual(["r_0", "r_2"]);
    await abort(app, { rid: "r" });
    expect(reasons(await answer(await response))).toEqual(["abort", "abort", "abort"]);
  });

  test.each([
    ["/generate", { text: "abc", sampling_params: { n: 3 } }],
    [CHAT, { messages, n: 3 }],
    [COMPLETIONS, { prompt: "abc", n: 3 }],
  ])("of several samples of %s ends all of them", async (path, body) => {
    const { engine, app } = setUp();
    const response = post(app, path, { ...body, rid: "mine" });
    await running(engine, 3);
    await abort(app, { rid: "mine" });
    expect((await response).status).toBe(200);
    expect(engine.running).toEqual([]);
  });

  test("of a prompt with several samples ends those, the batch's ends the rest", async () => {
    const { engine, app } = setUp();
    const body = { text: ["abc", "def"], rid: "r", sampling_params: { n: 2 } };
    const response = post(app, "/generate", body);
    await running(engine, 4);
    await abort(app, { rid: "r_0" });
    await new Promise((resolve) => setTimeout(resolve, 1));
    expect(engine.running).toHaveLength(2);
    await abort(app, { rid: "r" });
    expect(reasons(await answer(await response))).toEqual(Array(4).fill("abort"));
  });

  test("ends no request whose id it begins", async () => {
    const { engine, app } = setUp();
    const response = post(app, "/generate", { text: "abc", rid: "ab" });
    await running(engine, 1);
    await abort(app, { rid: "a" });
    await abort(app, { rid: "unknown" });
    expect(engine.running).toEqual(["ab"]);
    await abort(app, { abort_all: true });
    await response;
  });

  test("that runs cannot be taken again, one that has ended can", async () => {
    const { engine, app } = setUp();
    const first = post(app, "/generate", batch);
    await running(engine, 3);
    for (const rid of ["r", "r_1"]) {
      for (const [path, body] of [
        ["/generate", { text: "a", rid }],
        ["/generate", { text: ["a"], rid: [rid] }],
        ["/generate", { text: "a", rid, sampling_params: { n: 2 } }],
        [CHAT, { messages, rid }],
        [COMPLETIONS, { prompt: "a", rid }],
      ] as const) {
        const response = await post(app, path, body);
        expect(response.status).toBe(400);
        expect(await errorMessage(response)).toBe(`Duplicate request ID "${rid}"`);
      }
    }
    expect(engine.running).toHaveLength(3);
    await abort(app, { rid: "r" });
    await first;
    for (let i = 0; i < 2; i++) {
      expect((await post(app, "/generate", { text: "a", rid: "r" })).status).toBe(200);
    }
  });

  test("is free again after an engine that cannot even begin", async () => {
    const { engine, app } = setUp();
    const { generate } = engine;
    engine.generate = () => {
      throw new Error("broken");
    };
    const quiet = createApp(engine, { reportError: () => {} });
    const body = { text: "a", rid: "r" };
    expect((await post(quiet, "/generate", body)).status).toBe(500);
    engine.generate = generate;
    expect((await post(quiet, "/generate", body)).status).toBe(200);
    expect((await post(app, "/generate", body)).status).toBe(200);
  });

  test("is free again after a refusal and after a client has left", async () => {
    const { app } = setUp();
    const tooLong = { text: "x".repeat(5000), rid: "r" };
    expect((await post(app, "/generate", tooLong)).status).toBe(400);
    const stream = await post(app, "/generate", { text: "abc", rid: "r", stream: true });
    await stream.body!.cancel();
    expect((await post(app, "/generate", { text: "a", rid: "r" })).status).toBe(200);
  });
});

test("abort_all ends 32 requests, each with status 200", async () => {
  const { engine, app } = setUp();
  const responses = Array.from({ length: 32 }, () => post(app, "/generate", { text: "abc" }));
  await running(engine, 32);
  await abort(app, { abort_all: true });
  for (const response of await Promise.all(responses)) {
    expect(response.status).toBe(200);
    const { meta_info } = await answer<GenerateAnswer>(response);
    expect(meta_info.finish_reason!.type).toBe("abort");
  }
});

test.each([{}, { rid: "" }, { abort_all: false }, { rid: null, abort_all: null }])(
  "%j ends nothing, with status 200",
  async (body) => {
    const { engine, app } = setUp();
    const response = post(app, "/generate", { text: "abc" });
    await running(engine, 1);
    await abort(app, body);
    expect(engine.running).toHaveLength(1);
    await abort(app, { abort_all: true });
    await response;
  },
);

test.each([
  [{ rid: 5 }, "rid must be a string, got 5"],
  [{ rid: "r", reason: "x" }, "Cannot use reason: it is not a known field"],
])("%j is refused", async (body, message) => {
  const response = await post(setUp().app, "/abort_request", body);
  expect(response.status).toBe(400);
  expect(await errorMessage(response)).toBe(message);
});
