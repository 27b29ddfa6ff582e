/**
 * The unmodified `openai` client over a socket, against an engine that says what a script says.
 *
 * @module
 */
import OpenAI from "openai";
import { afterEach, expect } from "vitest";
import { type RunningServer, serve } from "../../../src/node/serve/http.ts";
import { type AppOptions, createApp } from "../../../src/server/app.ts";
import { type Script, ScriptedEngine } from "../engines/scripted_engine.ts";

export const asked = { model: "m", input: "hello" };

export let server: RunningServer;
/** Closes each test's server. */
export function closeServers(): void {
  afterEach(() => server.close());
}

export async function setUp(script?: () => Script, options: AppOptions = {}) {
  const engine = new ScriptedEngine(script && { script });
  const app = createApp(engine, { servedModelName: "tiny", reportError: () => {}, ...options });
  server = await serve(app, { host: "127.0.0.1", port: 0 });
  const client = new OpenAI({ baseURL: `${server.url}/v1`, apiKey: "none", maxRetries: 0 });
  return { engine, client };
}

export async function thrownBy(call: PromiseLike<unknown>) {
  const outcome = await Promise.resolve(call).then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(outcome).toBeInstanceOf(OpenAI.APIError);
  return outcome as InstanceType<typeof OpenAI.APIError>;
}
