/** Section 7 of the specification: errors, each with the body shape of its endpoint. */
import { describe, expect, test, vi } from "vitest";
import { CapacityError, DeviceError, InvalidRequestError } from "../../../src/errors.ts";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { bothForms, generateForm } from "../../support/server/error_bodies.ts";
import { errorMessage, eventLines, events, post } from "../../support/server/http_client.ts";

const CHAT = "/v1/chat/completions";
const messages = [{ role: "user", content: "hello" }];

function failing(error: unknown, at = 0) {
  const reportError = vi.fn();
  const engine = new ScriptedEngine({ script: () => ({ failure: { at, error } }) });
  return { engine, reportError, app: createApp(engine, { reportError }) };
}

describe("more than one grammar", () => {
  const grammars = { regex: "a", ebnf: "b" };

  test("is invalid on /generate", async () => {
    const app = createApp(new ScriptedEngine());
    const response = await post(app, "/generate", { text: "a", sampling_params: grammars });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain("Only one of regex, json_schema, or ebnf");
  });

  test("is invalid in a chat", async () => {
    const response = await post(createApp(new ScriptedEngine()), CHAT, { messages, ...grammars });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain("Only one of regex, json_schema, or ebnf");
  });
});

describe.each([false, true])("before the first chunk (stream: %s)", (stream) => {
  const generate = { text: "abc", stream };
  const chat = { messages, stream };

  test("a refusal of the engine is a 400 of /generate, nested", async () => {
    const { app, engine } = failing(new InvalidRequestError("The prompt is too long"));
    const response = await post(app, "/generate", generate);
    expect(response.status).toBe(400);
    expect(await response.json()).toEqual(generateForm({ message: "The prompt is too long" }));
    expect(engine.running).toEqual([]);
  });

  test("a refusal of the engine is a 400 of the chat, flat", async () => {
    const { app } = failing(new InvalidRequestError("The prompt is too long"));
    const response = await post(app, CHAT, chat);
    expect(response.status).toBe(400);
    expect(await response.json()).toEqual(
      bothForms({ message: "The prompt is too long", type: "BadRequestError", status: 400 }),
    );
  });

  test.each([
    ["/generate", generate],
    [CHAT, chat],
  ])("a full queue is a 503 of %s", async (path, body) => {
    const { app, reportError } = failing(
      new CapacityError("places in the request queue", 8, "all 8 are taken"),
    );
    const response = await post(app, path, body);
    expect(response.status).toBe(503);
    expect(await response.json()).toEqual(
      bothForms({ message: "The request queue is full.", type: "503", status: 503 }),
    );
    expect(reportError).not.toHaveBeenCalled();
  });

  test.each([
    ["/generate", generate, new TypeError("x is undefined")],
    [CHAT, chat, new TypeError("x is undefined")],
    [CHAT, chat, "not even an error"],
    [CHAT, chat, undefined],
  ])("a fault is a 500 of %s without details", async (path, body, fault) => {
    const { app, reportError } = failing(fault);
    const response = await post(app, path, body);
    expect(response.status).toBe(500);
    expect(await response.json()).toEqual(
      bothForms({ message: "Internal server error", type: "InternalServerError", status: 500 }),
    );
    expect(reportError).toHaveBeenCalledExactlyOnceWith(fault, expect.any(String));
  });

  test("one invalid item refuses the whole batch and stops the others", async () => {
    // The valid ones would wait for ever, so they end only because they are stopped.
    const gate = () => new Promise<void>(() => {});
    const engine = new ScriptedEngine({ script: () => ({ gate }) });
    const body = { text: ["abc", "x".repeat(5000), "def"], rid: "r", stream };
    const response = await post(createApp(engine), "/generate", body);
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toContain("The input (5000 tokens) is longer");
    expect(engine.running).toEqual([]);
    // On a slow machine the refusal comes before the last one begins.
    const begun = engine.requests.map((request) => request.requestId);
    expect(engine.cutShort).toContain("r_0");
    expect(engine.cutShort.toSorted()).toEqual(begun.filter((id) => id !== "r_1"));
  });

  test("a batch that does not fit is refused whole", async () => {
    const engine = new ScriptedEngine({ capacity: 2 });
    const response = await post(createApp(engine), "/generate", { text: ["a", "b", "c"], stream });
    expect(response.status).toBe(503);
    expect(engine.running).toEqual([]);
  });
});

describe("after the first chunk", () => {
  const fault = new DeviceError("The device was lost");

  test("a stream of /generate tells of the error and ends", async () => {
    const { app, reportError } = failing(fault, 2);
    const response = await post(app, "/generate", { text: "abc", stream: true });
    expect(response.status).toBe(200);
    const chunks = await events(response);
    expect(chunks).toHaveLength(3);
    expect(chunks[2]).toEqual(generateForm({ message: "The device was lost", status: 500 }));
    expect(reportError).toHaveBeenCalledExactlyOnceWith(fault, expect.any(String));
  });

  test("a chat stream tells of the error and ends", async () => {
    const { app } = failing(new TypeError("secret"), 1);
    const lines = await eventLines(await post(app, CHAT, { messages, stream: true }));
    expect(lines.pop()).toBe("[DONE]");
    expect(JSON.parse(lines.pop()!)).toEqual({
      error: {
        object: "error",
        message: "Internal server error",
        type: "InternalServerError",
        param: null,
        code: 500,
      },
    });
  });

  test("an error of one item stops the others of a streamed batch", async () => {
    const engine = new ScriptedEngine({
      script: ({ prompt }) => (prompt === "bad" ? { failure: { at: 1, error: fault } } : {}),
    });
    const body = { text: ["x".repeat(100), "bad"], rid: "r", stream: true };
    const app = createApp(engine, { reportError: () => {} });
    const chunks = await events(await post(app, "/generate", body));
    expect(chunks.at(-1)).toEqual(generateForm({ message: "The device was lost", status: 500 }));
    expect(engine.running).toEqual([]);
    expect(engine.cutShort).toEqual(["r_0"]);
  });

  test.each([
    ["/generate", { text: "abc" }],
    [CHAT, { messages }],
  ])("%s without a stream answers with the status of the error", async (path, body) => {
    const { app } = failing(fault, 2);
    const response = await post(app, path, body);
    expect(response.status).toBe(500);
    expect(await errorMessage(response)).toBe("The device was lost");
  });
});

const PATHS = [
  "/generate",
  CHAT,
  "/v1/completions",
  "/tokenize",
  "/detokenize",
  "/abort_request",
  "/parse_function_call",
  "/separate_reasoning",
];

describe.each(PATHS)("%s", (path) => {
  const app = createApp(new ScriptedEngine(), { maxBodyBytes: 1000 });

  test.each(["", "{", "[]", '"text"', "null", "{'text': 1}", '{"text": NaN}'])(
    "answers 400 with a flat body to %j",
    async (text) => {
      const response = await post(app, path, text);
      expect(response.status).toBe(400);
      expect(await response.json()).toEqual(
        bothForms({
          message: expect.stringMatching(/request body/),
          type: "Bad Request",
          status: 400,
        }),
      );
    },
  );

  test("answers 413 to a body that is too large", async () => {
    const response = await post(app, path, { text: "x".repeat(1000) });
    expect(response.status).toBe(413);
    expect(await response.json()).toMatchObject({ object: "error", code: 413, param: null });
  });

  test.each(["text/plain", "application/x-www-form-urlencoded", "application/jsonp", ""])(
    "answers 400 with a flat body to the Content-Type %j",
    async (type) => {
      const response = await post(app, path, "{}", { headers: { "content-type": type } });
      expect(response.status).toBe(400);
      expect(await response.json()).toEqual(
        bothForms({
          message: expect.stringContaining("Cannot accept the Content-Type header"),
          type: "Bad Request",
          status: 400,
        }),
      );
    },
  );

  test.each(["application/json", "Application/JSON; charset=utf-8"])(
    "takes the Content-Type %j",
    async (type) => {
      const response = await post(app, path, "{}", { headers: { "content-type": type } });
      expect(await response.text()).not.toContain("Content-Type");
    },
  );

  test("answers 405 to GET", async () => {
    const response = await app.request(path);
    expect(response.status).toBe(405);
    expect(response.headers.get("allow")).toContain("POST");
    expect(await response.json()).toMatchObject({ object: "error", code: 405 });
  });
});

test.each(["/v1/chat/completions", "/v1/completions", "/v1/tokenize", "/v1/detokenize"])(
  "%s without a Content-Type is a 400",
  async (path) => {
    const body = new TextEncoder().encode("{}");
    const response = await createApp(new ScriptedEngine()).request(path, { method: "POST", body });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toBe(
      'Cannot accept the Content-Type header: it is absent, not "application/json"',
    );
  },
);

test("an unknown path is a 404 with a flat body", async () => {
  const response = await post(createApp(new ScriptedEngine()), "/v2/generate", {});
  expect(response.status).toBe(404);
  expect(await response.json()).toEqual(
    bothForms({
      message: "Cannot POST /v2/generate: no such endpoint",
      type: "NotFoundError",
      status: 404,
      word: "unknown_url",
    }),
  );
});

test("an engine that ends without a reason is a fault, not an empty answer", async () => {
  const engine = new ScriptedEngine();
  engine.generate = async function* () {};
  const app = createApp(engine, { reportError: () => {} });
  expect((await post(app, "/generate", { text: "a" })).status).toBe(500);
  expect((await post(app, CHAT, { messages })).status).toBe(500);
  const lines = await eventLines(await post(app, "/generate", { text: "a", stream: true }));
  expect(lines).toEqual([
    JSON.stringify(generateForm({ message: "Internal server error", status: 500 })),
    "[DONE]",
  ]);
});
