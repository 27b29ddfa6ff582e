import { readFileSync } from "node:fs";
import { describe, expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { UNSUPPORTED_ENDPOINTS } from "../../../src/server/routes/unsupported_endpoints.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { bothForms } from "../../support/server/error_bodies.ts";
import { answer, post } from "../../support/server/http_client.ts";

describe("GET /health", () => {
  test.each([
    [true, 200],
    [false, 503],
  ])("of an engine whose health is %s is %i with an empty body", async (healthy, status) => {
    const response = await createApp(new ScriptedEngine({ healthy })).request("/health");
    expect(response.status).toBe(status);
    expect(await response.text()).toBe("");
  });

  test("runs no generation", async () => {
    const engine = new ScriptedEngine();
    await createApp(engine).request("/health");
    expect(engine.requests).toEqual([]);
  });
});

describe("/v1/models", () => {
  const card = {
    id: "org/name",
    object: "model",
    created: expect.any(Number),
    owned_by: "wisp",
    root: "models/scripted",
    max_model_len: 4096,
  };
  const app = createApp(new ScriptedEngine(), { servedModelName: "org/name" });

  test("lists the served model", async () => {
    const response = await app.request("/v1/models");
    expect(await response.json()).toEqual({ object: "list", data: [card] });
  });

  test("names the model by its path unless told otherwise", async () => {
    const response = await createApp(new ScriptedEngine()).request("/v1/models");
    const { data } = await answer<{ data: { id: string }[] }>(response);
    expect(data[0]!.id).toBe("models/scripted");
  });

  test.each(["/v1/models/org/name", "/v1/models/org%2Fname"])("%s is the model", async (path) => {
    expect(await (await app.request(path)).json()).toEqual(card);
  });

  test("finds a model that is named by an absolute path", async () => {
    const absolute = createApp(new ScriptedEngine(), { servedModelName: "/data/model" });
    expect((await absolute.request("/v1/models/%2Fdata%2Fmodel")).status).toBe(200);
  });

  test("answers 404 for another id, in the shape that OpenAI's clients read", async () => {
    const response = await app.request("/v1/models/gpt-9");
    expect(response.status).toBe(404);
    expect(await response.json()).toEqual(
      bothForms({
        message: 'Cannot find the model "gpt-9": it is not served here',
        type: "NotFoundError",
        status: 404,
        param: "model",
        word: "model_not_found",
      }),
    );
  });

  test.each(["/v1/models/%E0%A4%A", "/v1/models/..%2f..%2fx", "/%", "//", "/generate/"])(
    "%s is a 404",
    async (path) => {
      expect((await app.request(`http://wisp.test${path}`)).status).toBe(404);
    },
  );

  test.each(["/v1/models", "/v1/models/org/name", "/health"])("POST %s is a 405", async (path) => {
    const response = await post(app, path, {});
    expect(response.status).toBe(405);
    expect(response.headers.get("allow")).toBe("GET");
  });
});

describe("CORS, where every origin is allowed", () => {
  const app = createApp(new ScriptedEngine(), { allowedOrigins: ["*"] });
  const origin = "https://page.test";

  test("a preflight allows any origin, method and header", async () => {
    const response = await app.request("/v1/chat/completions", {
      method: "OPTIONS",
      headers: {
        origin,
        "access-control-request-method": "POST",
        "access-control-request-headers": "authorization, x-anything",
      },
    });
    expect(response.status).toBe(204);
    expect(response.headers.get("access-control-allow-origin")).toBe(origin);
    expect(response.headers.get("access-control-allow-methods")).toContain("POST");
    expect(response.headers.get("access-control-allow-headers")).toBe("authorization,x-anything");
  });

  test.each([
    ["an answer", "/v1/models"],
    ["an error", "/nowhere"],
  ])("%s may be read by any origin", async (_, path) => {
    const response = await app.request(path, { headers: { origin } });
    expect(response.headers.get("access-control-allow-origin")).toBe(origin);
  });

  test("a stream may be read by any origin", async () => {
    const body = { text: "a", stream: true };
    const response = await post(app, "/generate", body, { headers: { origin } });
    expect(response.headers.get("access-control-allow-origin")).toBe(origin);
    expect(response.headers.get("content-type")).toBe("text/event-stream");
  });
});

test("app.fetch is a function of Request", async () => {
  const app = createApp(new ScriptedEngine());
  expect((await app.fetch(new Request("http://wisp.test/health"))).status).toBe(200);
});

test("docs/http.md names every endpoint", () => {
  const page = readFileSync(new URL("../../../docs/http.md", import.meta.url), "utf8");
  const metrics = { contentType: "text/plain", text: async () => "" };
  const { routes } = createApp(new ScriptedEngine(), { metrics });
  const known = (path: string) => path === "/*" || UNSUPPORTED_ENDPOINTS.has(path);
  const offered = routes.map(({ path }) => path).filter((path) => !known(path));
  const paths = new Set(offered.map((path) => path.replace(/:id(\{\.\+\})?/, "{id}")));
  const named = (path: string) => page.includes(`${path.replace(/^\/v1(?=\/(de)?tok)/, "")}\``);
  expect(paths.size).toBeGreaterThan(15);
  expect([...paths].filter((path) => !named(path))).toEqual([]);
});
