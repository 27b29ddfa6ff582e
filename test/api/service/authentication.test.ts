/** Section 5 of the specification: keys, and which pages may use the server. */
import { describe, expect, test } from "vitest";
import { InvalidRequestError } from "../../../src/errors.ts";
import { type AppOptions, createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { bothForms } from "../../support/server/error_bodies.ts";
import { post } from "../../support/server/http_client.ts";

const KEY = "secret-key";
const ADMIN = "admin-key";
const page = {
  contentType: "text/plain",
  text: async () => "figures",
};

function setUp(options: AppOptions = { apiKey: KEY }) {
  const engine = new ScriptedEngine();
  return { engine, app: createApp(engine, { metrics: page, ...options }) };
}

const bearer = (key: string) => ({ authorization: `Bearer ${key}` });

describe("with a key", () => {
  const requests = [
    ["POST", "/generate", { text: "a" }],
    ["POST", "/v1/chat/completions", { messages: [{ role: "user", content: "a" }] }],
    ["POST", "/v1/completions", { prompt: "a" }],
    ["POST", "/tokenize", { prompt: "a" }],
    ["POST", "/abort_request", { abort_all: true }],
    ["GET", "/flush_cache", undefined],
    ["GET", "/v1/models", undefined],
    ["GET", "/get_model_info", undefined],
    ["GET", "/get_server_info", undefined],
    ["GET", "/get_load", undefined],
  ] as const;

  test.each(requests)("%s %s asks for it", async (method, path, body) => {
    const { engine, app } = setUp();
    const send = (headers: Readonly<Record<string, string>>) =>
      body === undefined
        ? app.request(path, { method, headers })
        : post(app, path, body, { method, headers });
    const refused = await send({});
    expect(refused.status).toBe(401);
    const message =
      `Unauthorized: cannot ${method} ${path}: it takes the server's key, in the header ` +
      "Authorization: Bearer KEY or x-api-key: KEY";
    const forms = { message, type: "AuthenticationError", status: 401, word: "invalid_api_key" };
    const expected = path.startsWith("/v1/") ? bothForms(forms) : { error: "Unauthorized" };
    expect(await refused.json()).toEqual(expected);
    expect(refused.headers.get("www-authenticate")).toBe("Bearer");
    expect(engine.requests).toEqual([]);
    expect((await send(bearer(KEY))).status).toBe(200);
  });

  test.each(["/nowhere", "/v1/embeddings", "/generate/", "//health", "/Health"])(
    "%s tells nothing without it",
    async (path) => {
      expect((await setUp().app.request(`http://wisp.test${path}`)).status).toBe(401);
    },
  );

  test.each(["/health", "/health_generate", "/metrics"])("%s is open", async (path) => {
    expect((await setUp().app.request(path)).status).toBe(200);
  });

  test("a preflight is open", async () => {
    const headers = { origin: "https://page.test", "access-control-request-method": "POST" };
    const response = await setUp().app.request("/generate", { method: "OPTIONS", headers });
    expect(response.status).toBe(204);
  });

  test.each([
    "",
    KEY,
    "Bearer",
    "Bearer ",
    `Bearer ${KEY} `.trimEnd().slice(0, -1),
    `Bearer ${KEY}x`,
    `Bearer  ${KEY}`,
    `Bearer ${KEY}${KEY}`,
    `Bearer ${KEY.toUpperCase()}`,
    `Basic ${KEY}`,
    `Bearer x${KEY.slice(1)}`,
    `Bearer undefined`,
  ])("the header %j is none", async (authorization) => {
    const response = await setUp().app.request("/v1/models", { headers: { authorization } });
    expect(response.status).toBe(401);
  });

  test("the scheme's name may be written in any case", async () => {
    const headers = { authorization: `bEARER ${KEY}` };
    expect((await setUp().app.request("/v1/models", { headers })).status).toBe(200);
  });

  test("a page can read the refusal", async () => {
    const headers = { origin: "https://page.test" };
    const { app } = setUp({ apiKey: KEY, allowedOrigins: [headers.origin] });
    const response = await app.request("/v1/models", { headers });
    expect(response.status).toBe(401);
    expect(response.headers.get("access-control-allow-origin")).toBe("https://page.test");
  });
});

test("without a key any header will do", async () => {
  const { app } = setUp({});
  expect((await app.request("/v1/models", { headers: bearer("x") })).status).toBe(200);
  expect((await app.request("/flush_cache")).status).toBe(200);
});

describe("with an admin key", () => {
  const status = async (options: AppOptions, path: string, key?: string) => {
    const headers = key === undefined ? {} : bearer(key);
    return (await setUp(options).app.request(path, { headers })).status;
  };
  const both = { apiKey: KEY, adminApiKey: ADMIN };

  test.each(["/flush_cache", "/abort_request"])("%s asks for that one", async (path) => {
    const answered = path === "/flush_cache" ? 200 : 405;
    expect(await status(both, path)).toBe(401);
    expect(await status(both, path, "other")).toBe(401);
    expect(await status(both, path, KEY)).toBe(403);
    expect(await status(both, path, ADMIN)).toBe(answered);
    expect(await status({ adminApiKey: ADMIN }, path)).toBe(401);
    expect(await status({ adminApiKey: ADMIN }, path, ADMIN)).toBe(answered);
  });

  test("everything else asks for the other, which the admin's stands for", async () => {
    expect(await status(both, "/v1/models")).toBe(401);
    expect(await status(both, "/v1/models", KEY)).toBe(200);
    expect(await status(both, "/v1/models", ADMIN)).toBe(200);
    expect(await status({ adminApiKey: ADMIN }, "/v1/models")).toBe(200);
  });

  test("a refusal of a known key says so", async () => {
    const response = await setUp(both).app.request("/flush_cache", { headers: bearer(KEY) });
    expect(await response.json()).toEqual({ error: "Forbidden" });
  });
});

test.each(["", " ", "two words", "schlüssel", "line\nbreak"])("the key %j is none", (key) => {
  for (const name of ["apiKey", "adminApiKey"]) {
    const create = () => createApp(new ScriptedEngine(), { [name]: key });
    expect(create).toThrow(InvalidRequestError);
    expect(create).toThrow(`Cannot use ${name}: it must be visible ASCII characters`);
  }
});

describe("with a list of origins", () => {
  const allowed = "https://page.test";
  const { engine, app } = setUp({ allowedOrigins: [allowed] });

  test("a page of one may", async () => {
    const headers = { origin: allowed };
    const response = await post(app, "/generate", { text: "a" }, { headers });
    expect(response.status).toBe(200);
    expect(response.headers.get("access-control-allow-origin")).toBe(allowed);
  });

  // What a page says to be of is the host it asks, where a name was made to lead here.
  test("a page that the server seems to have sent itself may not", async () => {
    const headers = { origin: "http://localhost" };
    expect((await post(app, "/generate", { text: "a" }, { headers })).status).toBe(403);
  });

  test("other pages may not, before anything is done for them", async () => {
    const before = engine.requests.length;
    const headers = { origin: "https://other.test", "content-type": "text/plain" };
    const response = await post(app, "/generate", { text: "a" }, { headers });
    expect(response.status).toBe(403);
    expect(await response.json()).toEqual({ error: "Forbidden" });
    expect(response.headers.get("access-control-allow-origin")).toBeNull();
    expect(engine.requests).toHaveLength(before);
    const preflight = await app.request("/generate", {
      method: "OPTIONS",
      headers: { ...headers, "access-control-request-method": "POST" },
    });
    expect(preflight.headers.get("access-control-allow-origin")).toBeNull();
  });

  test("programs that are no page may", async () => {
    expect((await app.request("/v1/models")).status).toBe(200);
  });
});
