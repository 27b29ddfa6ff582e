/** The memory of requests' bodies: what finds no room is refused, and every end gives it back. */
import { describe, expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { answer, errorMessage, post } from "../../support/server/http_client.ts";
import { until } from "../../support/until.ts";

/** Bytes, and a body that fits in while nothing else does: its bytes, and its values. */
const MEMORY = 1000;
const WHOLE = { prompt: "x".repeat(250) };

function setUp() {
  let open = () => {};
  const opened = new Promise<void>((resolve) => {
    open = resolve;
  });
  const gate = () => opened;
  const engine = new ScriptedEngine({
    script: ({ prompt = "" }) => (prompt === "wait" ? { pieces: ["a", "b"], gate } : {}),
  });
  const app = createApp(engine, { requestMemory: MEMORY, reportError: () => {} });
  return { engine, app, open, whole: () => post(app, "/tokenize", WHOLE) };
}

test("a request that finds no room gets 503 and is told when to try again", async () => {
  const { engine, app, open, whole } = setUp();
  const other = post(app, "/v1/completions", { prompt: "wait" });
  await until(() => expect(engine.running).toHaveLength(1));
  const refused = await whole();
  expect(refused.status).toBe(503);
  expect(refused.headers.get("retry-after")).toBe("1");
  expect(await errorMessage(refused)).toMatch(
    /^Cannot reserve memory for requests: \d+ bytes are taken by other requests, and this one needs \d+$/,
  );
  open();
  expect((await other).status).toBe(200);
  expect((await whole()).status).toBe(200);
});

test("one that never would gets 413", async () => {
  const { app, whole } = setUp();
  for (const body of [
    { prompt: "x".repeat(MEMORY) },
    { prompt: Array.from({ length: 20 }, () => ({})) },
  ]) {
    const refused = await post(app, "/tokenize", body);
    expect(refused.status).toBe(413);
    expect(await errorMessage(refused)).toContain("more than the 1000 bytes of memory");
  }
  expect((await whole()).status).toBe(200);
});

describe.each(["/generate", "/v1/completions", "/v1/chat/completions"])("%s", (path) => {
  const asked = (prompt: string, fields: object = {}) =>
    path === "/generate"
      ? { text: prompt, ...fields }
      : path === "/v1/completions"
        ? { prompt, ...fields }
        : { messages: [{ role: "user", content: prompt }], ...fields };

  test.each([
    ["an answer", { stream: false }],
    ["a stream", { stream: true }],
    ["a field that is wrong", { stream: "yes" }],
    ["a request that the engine refuses", { rid: "" }],
  ])("%s leaves nothing behind", async (_, fields) => {
    const { app, whole } = setUp();
    await (await post(app, path, asked("abc", fields))).text();
    expect((await whole()).status).toBe(200);
  });

  test("a stream counts until it has ended, or its client has left", async () => {
    const { app, open, whole } = setUp();
    const first = await post(app, path, asked("abc", { stream: true }));
    expect((await whole()).status).toBe(503);
    await first.body!.cancel();
    expect((await whole()).status).toBe(200);
    const leaving = new AbortController();
    const options = { signal: leaving.signal };
    await post(app, path, asked("abc", { stream: true }), options);
    expect((await whole()).status).toBe(503);
    leaving.abort();
    expect((await whole()).status).toBe(200);
    open();
  });
});

test("an answer that fails leaves nothing behind", async () => {
  const failure = { at: 1, error: new Error("broken") };
  const engine = new ScriptedEngine({ script: () => ({ pieces: ["a", "b"], failure }) });
  const app = createApp(engine, { requestMemory: MEMORY, reportError: () => {} });
  for (const stream of [true, false]) {
    await (await post(app, "/generate", { text: "a", stream })).text();
    expect(await answer(await post(app, "/tokenize", WHOLE))).toMatchObject({ count: 250 });
  }
});

test.each([
  ["/generate", (image: string) => ({ image_data: image, text: "a" })],
  [
    "/v1/chat/completions",
    (image: string) => ({
      messages: [
        {
          role: "user",
          content: [
            { type: "text", text: "a" },
            { type: "image_url", image_url: { url: image } },
          ],
        },
      ],
    }),
  ],
])("the bytes of images of %s count, beside the text that they come in", async (path, asked) => {
  const bytes = 2400;
  const image = `data:image/png;base64,${Buffer.alloc(bytes).toString("base64")}`;
  const model = { readsImages: true };
  // Of a body that is read only, and of one whose images are read.
  const taken = async (url: string, body: object) => {
    let open = () => {};
    const opened = new Promise<void>((resolve) => {
      open = resolve;
    });
    const engine = new ScriptedEngine({
      model,
      script: () => ({ pieces: ["a"], gate: () => opened }),
    });
    const app = createApp(engine, { requestMemory: 28_000 });
    const asking = post(app, url, body);
    await until(() => expect(engine.running).toHaveLength(1));
    // There is no room for it as soon as it comes, so the others alone are told of.
    const refused = await errorMessage(
      await post(app, "/tokenize", { prompt: "x".repeat(13_900) }),
    );
    open();
    expect((await asking).status).toBe(200);
    expect(await answer(await post(app, "/tokenize", { prompt: "x".repeat(9000) }))).toMatchObject({
      count: 9000,
    });
    return Number(/(\d+) bytes are taken/.exec(refused)![1]);
  };
  const same = await taken("/generate", { text: JSON.stringify(asked(image)) });
  const counted = await taken(path, asked(image));
  // Lists and objects are some hundred bytes more than the text of their JSON.
  expect(counted - same).toBeGreaterThan(bytes - 500);
});
