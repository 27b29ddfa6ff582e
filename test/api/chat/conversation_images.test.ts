/** Images of `/v1/messages`, `/v1/responses` and Ollama's endpoints, as an engine is given them. */
import { describe, expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { errorMessage, post } from "../../support/server/http_client.ts";

const A = Uint8Array.from([1, 2, 3, 4]);
const B = Uint8Array.from([250, 0, 9]);
const base64 = (bytes: Uint8Array) => Buffer.from(bytes).toString("base64");
const dataUrl = (bytes: Uint8Array) => `data:image/png;base64,${base64(bytes)}`;

function setUp({ readsImages = true } = {}) {
  const engine = new ScriptedEngine({ model: { readsImages } });
  return { engine, app: createApp(engine) };
}

const user = (content: unknown, rest: object = {}) => ({ role: "user", content, ...rest });
const block = (bytes: Uint8Array) => ({
  type: "image",
  source: { type: "base64", media_type: "image/png", data: base64(bytes) },
});
const part = (bytes: Uint8Array, rest: object = {}) => ({
  type: "input_image",
  image_url: dataUrl(bytes),
  ...rest,
});
const IMAGE = { type: "image" };
const text = (value: string) => ({ type: "text", text: value });

describe("/v1/messages", () => {
  const turns = [
    user([text("a"), block(A), text("b")]),
    { role: "assistant", content: "c" },
    user([{ type: "tool_result", tool_use_id: "t", content: "d" }, text("e")]),
    user([{ type: "image", source: { type: "url", url: dataUrl(B) } }, text("f")]),
  ];
  const messages = [
    user([text("a"), IMAGE, text("b")]),
    { role: "assistant", content: "c" },
    { role: "tool", content: "d", tool_call_id: "t" },
    user("e"),
    user([IMAGE, text("f")]),
  ];

  test("are shown in their places, those of base64 and of URLs", async () => {
    const { engine, app } = setUp();
    const response = await post(app, "/v1/messages", { max_tokens: 4, messages: turns });
    expect(response.status).toBe(200);
    expect(engine.requests[0]).toMatchObject({ images: [A, B], messages });
  });

  test("are counted with the tokens", async () => {
    const { engine, app } = setUp();
    const response = await post(app, "/v1/messages/count_tokens", { messages: turns });
    expect(response.status).toBe(200);
    expect(engine.tokenized[0]).toMatchObject({ images: [A, B], messages });
  });

  test.each([
    [{}, "messages[0].content[0].source is missing"],
    [{ source: { type: "file", file_id: "x" } }, "source.type must be one of base64, url"],
    [{ source: { type: "base64" } }, "messages[0].content[0].source.data must be a string"],
    [{ source: { type: "base64", data: "?" } }, "source.data must be an image in base64"],
    [{ source: { type: "url", url: "http://a/b.png" } }, "source.url, a URL: --allowed-media"],
    [{ ...block(A), title: "x" }, "messages[0].content[0].title"],
  ])("%j is refused", async (image, reason) => {
    const { engine, app } = setUp();
    const messages = [user([{ type: "image", ...image }])];
    const response = await post(app, "/v1/messages", { max_tokens: 4, messages });
    expect(response.status).toBe(400);
    const { error } = (await response.json()) as { error: { message: string } };
    expect(error.message).toContain(reason);
    expect(engine.requests).toEqual([]);
  });
});

describe("/v1/responses", () => {
  test("are shown in their places, with those of the response before", async () => {
    const { engine, app } = setUp();
    const input = [user([{ type: "input_text", text: "a" }, part(A, { detail: "low" })])];
    const first = await post(app, "/v1/responses", { input });
    const { id } = (await first.json()) as { id: string };
    const more = {
      previous_response_id: id,
      input: [user([part(B), { type: "input_text", text: "b" }])],
    };
    expect((await post(app, "/v1/responses", more)).status).toBe(200);
    const low = { type: "image", detail: "low" };
    const said = user([text("a"), low]);
    expect(engine.requests[0]).toMatchObject({ images: [A], messages: [said] });
    const { images, messages } = engine.requests[1]!;
    expect(images).toEqual([A, B]);
    expect(messages).toMatchObject([said, { role: "assistant" }, user([IMAGE, text("b")])]);
  });

  test.each([
    [part(A, { detail: "best" }), "detail must be one of"],
    [{ type: "input_image", file_id: "x" }, "Cannot use input[0].content[0].file_id"],
    [{ type: "input_image", image_url: "x?" }, "input[0].content[0].image_url must be an image"],
  ])("%j is refused", async (image, reason) => {
    const { app } = setUp();
    const response = await post(app, "/v1/responses", { input: [user([image])] });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain(reason);
  });
});

describe("Ollama's endpoints", () => {
  test("show the images of a message in front of its text", async () => {
    const { engine, app } = setUp();
    const messages = [user("a", { images: [base64(A), base64(B)] }), user("b", { images: [] })];
    const response = await post(app, "/api/chat", { stream: false, messages });
    expect(response.status).toBe(200);
    expect(engine.requests[0]).toMatchObject({
      images: [A, B],
      messages: [user([IMAGE, IMAGE, text("a")]), user("b")],
    });
  });

  test("show those of a prompt", async () => {
    const { engine, app } = setUp();
    const body = { stream: false, prompt: "a", images: [base64(A)] };
    expect((await post(app, "/api/generate", body)).status).toBe(200);
    expect(engine.requests[0]).toMatchObject({ images: [A], messages: [user([IMAGE, text("a")])] });
    await post(app, "/api/generate", { ...body, raw: true });
    expect(engine.requests[1]).toMatchObject({ images: [A], prompt: "a" });
  });

  test.each([
    ["/api/chat", { messages: [user("a", { images: ["?"] })] }, "messages[0].images[0] must be"],
    [
      "/api/chat",
      { messages: [{ role: "system", content: "a", images: [base64(A)] }] },
      "only what",
    ],
    ["/api/generate", { prompt: "a", images: ["?"] }, "images[0] must be an image in base64"],
  ])("%s refuses %j", async (path, body, reason) => {
    const { app } = setUp();
    const response = await post(app, path, body);
    expect(response.status).toBe(400);
    expect(await response.text()).toContain(reason);
  });

  test("refuse images where the model reads text only", async () => {
    const { app } = setUp({ readsImages: false });
    const response = await post(app, "/api/generate", { prompt: "a", images: [base64(A)] });
    expect(response.status).toBe(400);
    expect(await response.text()).toContain("images[0]: the model reads text only");
  });
});
