import { describe, expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import type { Lifecycle } from "../../../src/server/guard/lifecycle.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import { bothForms } from "../../support/server/error_bodies.ts";
import { answer, post } from "../../support/server/http_client.ts";

const appThatIs = (state: Lifecycle, options = {}) =>
  createApp(new ScriptedEngine(), { lifecycle: () => state, ...options });

describe("GET /health", () => {
  test.each([
    ["starting", 503],
    ["ready", 200],
    ["draining", 503],
  ] as const)("of a server that is %s is %i with an empty body", async (state, status) => {
    const response = await appThatIs(state).request("/health");
    expect(response.status).toBe(status);
    expect(await response.text()).toBe("");
  });

  test.each([
    [0, 200],
    [299, 200],
    [300, 503],
  ])("after %i seconds without a step is %i", async (stalledFor, status) => {
    const app = createApp(new ScriptedEngine({ stalledFor }));
    expect((await app.request("/health")).status).toBe(status);
  });

  test("the watchdog's patience can be chosen", async () => {
    const app = createApp(new ScriptedEngine({ stalledFor: 5 }), { watchdogTimeout: 4 });
    expect((await app.request("/health")).status).toBe(503);
  });
});

describe("a server that drains", () => {
  test.each(["/generate", "/v1/chat/completions"])(
    "refuses POST %s with 503 and closes the connection",
    async (path) => {
      const response = await post(appThatIs("draining"), path, { text: "a" });
      expect(response.status).toBe(503);
      expect(response.headers.get("connection")).toBe("close");
      expect(await response.json()).toEqual(
        bothForms({
          message: `Cannot POST ${path}: the server is shutting down`,
          type: "503",
          status: 503,
        }),
      );
    },
  );

  test("still shows its metrics", async () => {
    const metrics = { contentType: "text/plain", text: async () => "up 1\n" };
    const response = await appThatIs("draining", { metrics }).request("/metrics");
    expect(response.status).toBe(200);
  });

  test("that only starts takes requests already", async () => {
    const response = await post(appThatIs("starting"), "/generate", { text: "a" });
    expect((await answer<{ text: string }>(response)).text).toBe("a");
  });
});

describe("GET /metrics", () => {
  test("is a 404 unless metrics are counted", async () => {
    expect((await createApp(new ScriptedEngine()).request("/metrics")).status).toBe(404);
  });

  test("is the text of the page with its type", async () => {
    const metrics = { contentType: "text/plain; version=0.0.4", text: async () => "up 1\n" };
    const response = await createApp(new ScriptedEngine(), { metrics }).request("/metrics");
    expect(response.headers.get("content-type")).toBe(metrics.contentType);
    expect(await response.text()).toBe("up 1\n");
  });
});
