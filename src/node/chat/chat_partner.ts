/**
 * Who answers a chat in the terminal: a model in this process, or a server.
 *
 * @module
 */
import { ChatClient } from "../../client/chat_client.ts";
import type { ServedModel } from "../../client/chat_exchange.ts";
import { createApp } from "../../server/app.ts";
import { parsersOf } from "../../text/family_parsers.ts";
import type { CommandContext } from "../commands/command_context.ts";
import { quietReport } from "../serve/start_report.ts";
import type { ChatOptions } from "./chat_options.ts";

export interface ChatPartner {
  readonly client: ChatClient;
  readonly model: ServedModel;
  close(): Promise<void>;
}

/**
 * A model in this process is asked as a server is, over the same interface without a socket.
 *
 * @throws {EngineError} when the model cannot be loaded, or the server does not tell of one.
 */
export async function openPartner(
  options: ChatOptions,
  { startEngine, stderr }: CommandContext,
): Promise<ChatPartner> {
  if (options.url !== undefined) return ofServer(options.url, options.apiKey);
  const engine = await startEngine(options, quietReport(stderr));
  const { toolCalls, reasoning } = parsersOf(engine.model.family);
  const app = createApp(engine, {
    toolCallParser: toolCalls,
    reasoningParser: reasoning,
    // The conversation tells of errors.
    reportError: () => {},
  });
  const client = new ChatClient((path, init) => app.request(path, init));
  return { client, model: await client.describe(), close: () => engine.close() };
}

async function ofServer(url: string, apiKey: string | undefined): Promise<ChatPartner> {
  // Clients are used to addresses that end in /v1.
  const base = url.replace(/\/+$/, "").replace(/\/v1$/, "");
  const client = new ChatClient((path, init) => {
    const headers = new Headers(init.headers);
    if (apiKey !== undefined) headers.set("authorization", `Bearer ${apiKey}`);
    return fetch(base + path, { ...init, headers });
  });
  return { client, model: await client.describe(), close: async () => {} };
}
