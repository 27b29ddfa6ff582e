/**
 * The unmodified `@anthropic-ai/sdk` client over a socket, against an engine that says what a script says.
 *
 * @module
 */
import Anthropic from "@anthropic-ai/sdk";
import { afterEach, expect } from "vitest";
import type { ModelDescription } from "../../../src/generation.ts";
import { type RunningServer, serve } from "../../../src/node/serve/http.ts";
import { type AppOptions, createApp } from "../../../src/server/app.ts";
import { type Script, ScriptedEngine } from "../engines/scripted_engine.ts";

export const messages = [{ role: "user" as const, content: "hello" }];
export const asked = { model: "m", messages, max_tokens: 100 };

export let server: RunningServer;

/** Closes each test's server. */
export function closeServers(): void {
  afterEach(() => server.close());
}

export interface SetUp extends AppOptions {
  readonly script?: () => Script;
  readonly model?: Partial<ModelDescription>;
  readonly capacity?: number;
  readonly client?: object;
}

export async function setUp({ script, model, capacity, client, ...options }: SetUp = {}) {
  const engine = new ScriptedEngine({
    ...(script && { script }),
    ...(model && { model }),
    ...(capacity !== undefined && { capacity }),
  });
  const app = createApp(engine, { servedModelName: "tiny", reportError: () => {}, ...options });
  server = await serve(app, { host: "127.0.0.1", port: 0 });
  const given = { baseURL: server.url, apiKey: "none", authToken: null, maxRetries: 0, ...client };
  return { engine, client: new Anthropic(given) };
}

export async function thrownBy(call: PromiseLike<unknown>) {
  const outcome = await Promise.resolve(call).then(
    () => undefined,
    (error: unknown) => error,
  );
  expect(outcome).toBeInstanceOf(Anthropic.APIError);
  return outcome as InstanceType<typeof Anthropic.APIError>;
}
