import { expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { ENDPOINT_PATHS, isEndpointPath } from "../../../src/server/routes/endpoint_paths.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";

test("ENDPOINT_PATHS are the paths of createApp", () => {
  const app = createApp(new ScriptedEngine({}));
  const paths = new Set(app.routes.map(({ path }) => path).filter((path) => path !== "/*"));
  expect([...paths].sort()).toEqual([...ENDPOINT_PATHS].sort());
});

test.each(["/generate", "/v1/models", "/v1/models/a/b", "/v1/responses/1/cancel", "/ping"])(
  "isEndpointPath knows %s",
  (path) => expect(isEndpointPath(path)).toBe(true),
);

test.each(["/", "/index.html", "/generated", "/app/generate", "/v1/responses/1/2", "/metrics"])(
  "isEndpointPath does not know %s",
  (path) => expect(isEndpointPath(path)).toBe(false),
);
