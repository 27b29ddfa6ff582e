/** The header x-request-id, which every answer has. */
import { describe, expect, test, vi } from "vitest";
import { DeviceError } from "../../../src/errors.ts";
import { type AppOptions, createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { post } from "../../support/server/http_client.ts";

const HEADER = "x-request-id";
const messages = [{ role: "user", content: "hello" }];
const keyed = { apiKey: "key" };

type Asked = readonly [name: string, path: string, body: unknown, AppOptions, status: number];

const ANSWERS: readonly Asked[] = [
  ["a chat", "/v1/chat/completions", { messages }, {}, 200],
  ["a stream", "/v1/chat/completions", { messages, stream: true }, {}, 200],
  ["a generation", "/generate", { text: "a" }, {}, 200],
  ["a refusal", "/v1/chat/completions", { messages, top_p: 2 }, {}, 400],
  ["a refusal of /generate", "/generate", {}, {}, 400],
  ["a body that is no JSON", "/tokenize", "{", {}, 400],
  ["an unknown path", "/v9", {}, {}, 404],
  ["an unknown model", "/v1/models/other", undefined, {}, 404],
  ["another method", "/generate", undefined, {}, 405],
  ["an endpoint of others", "/v1/messages", {}, {}, 400],
  ["no key", "/v1/models", undefined, keyed, 401],
  ["health", "/health", undefined, keyed, 200],
  ["health of a server that starts", "/health", undefined, { lifecycle: () => "starting" }, 503],
  ["a server that stops", "/generate", { text: "a" }, { lifecycle: () => "draining" }, 503],
  ["a page of another origin", "/health", undefined, { allowedOrigins: [] }, 403],
];

describe.each(ANSWERS)("the answer to %s", (name, path, body, options, status) => {
  const ask = (headers: Readonly<Record<string, string>>): Promise<Response> => {
    const app = createApp(new ScriptedEngine(), options);
    const origin = name.includes("origin") ? { origin: "https://b.test" } : {};
    const all = { ...headers, ...origin };
    if (body !== undefined) return post(app, path, body, { headers: all });
    return Promise.resolve(app.request(path, { headers: all }));
  };

  test("has the client's", async () => {
    const response = await ask({ [HEADER]: "req_7/ax" });
    expect(response.status).toBe(status);
    expect(response.headers.get(HEADER)).toBe("req_7/ax");
  });

  test("has a new one each time where the client has none", async () => {
    const ids = [(await ask({})).headers.get(HEADER), (await ask({})).headers.get(HEADER)];
    for (const id of ids) expect(id).toMatch(/^[\da-f-]{36}$/);
    expect(ids[0]).not.toBe(ids[1]);
  });
});

describe("a client's id", () => {
  const app = createApp(new ScriptedEngine());
  const echoed = async (id: string) =>
    (await app.request("/health", { headers: { [HEADER]: id } })).headers.get(HEADER);

  test.each(["a", "x".repeat(200), "!~", '{"a":1}'])("%j is taken", async (id) => {
    expect(await echoed(id)).toBe(id);
  });

  test.each(["", "two words", "x".repeat(201), "caf\u00e9", "a\tb"])(
    "%j is replaced",
    async (id) => {
      expect(await echoed(id)).toMatch(/^[\da-f-]{36}$/);
    },
  );

  test("names no generation: the same one may come again while the first is answered", async () => {
    const engine = new ScriptedEngine();
    const twice = createApp(engine);
    const headers = { [HEADER]: "again" };
    const asked = [1, 2].map(() => post(twice, "/generate", { text: "a" }, { headers }));
    for (const response of await Promise.all(asked)) expect(response.status).toBe(200);
    expect(engine.requests.map(({ requestId }) => requestId)).toEqual([undefined, undefined]);
  });
});

test.each([
  ["/generate", { text: "a", stream: true }, 1],
  ["/generate", { text: "a" }, 0],
  ["/v1/chat/completions", { messages, stream: true }, 1],
  ["/v1/completions", { prompt: "a", stream: true }, 1],
  ["/v1/completions", { prompt: "a" }, 1],
])("a fault of %s with %j is reported with the id of its answer", async (path, body, at) => {
  const error = new DeviceError("gone");
  const reportError = vi.fn();
  const script = () => ({ pieces: ["one", " two"], failure: { at, error } });
  const app = createApp(new ScriptedEngine({ script }), { reportError });
  const response = await post(app, path, body);
  await response.text();
  const id = response.headers.get(HEADER);
  expect(id).toMatch(/^[\da-f-]{36}$/);
  expect(reportError).toHaveBeenCalledExactlyOnceWith(error, id);
});

test.each([[["*"]], [["https://page.test"]]])(
  "a page may read it (allowed origins: %j)",
  async (allowedOrigins) => {
    const app = createApp(new ScriptedEngine(), { allowedOrigins });
    const headers = { origin: "https://page.test" };
    const response = await post(app, "/generate", { text: "a" }, { headers });
    expect(response.headers.get("access-control-expose-headers")).toBe(HEADER);
  },
);
