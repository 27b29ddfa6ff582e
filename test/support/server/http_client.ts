/**
 * Small pieces for tests that talk to an app through `app.request`.
 *
 * @module
 */
import type { Hono } from "hono";

export interface PostOptions {
  readonly method?: string;
  readonly headers?: Readonly<Record<string, string>>;
  readonly signal?: AbortSignal;
}

/** Posts `body`, as JSON unless it is a string already. */
export function post(
  app: Hono,
  path: string,
  body: unknown,
  { method = "POST", headers = {}, signal }: PostOptions = {},
): Promise<Response> {
  const init: RequestInit = {
    method,
    headers: { "content-type": "application/json", ...headers },
    body: typeof body === "string" ? body : JSON.stringify(body),
  };
  return Promise.resolve(app.request(path, signal ? { ...init, signal } : init));
}

/** The payloads of all `data:` lines. */
export async function eventLines(response: Response): Promise<string[]> {
  const text = await response.text();
  return text
    .split("\n\n")
    .filter((event) => event !== "")
    .map((event) => event.replace(/^data: /, ""));
}

/** The parsed events of a stream, which has to end with exactly one `[DONE]`. */
export async function events<T = unknown>(response: Response): Promise<T[]> {
  const lines = await eventLines(response);
  if (lines.pop() !== "[DONE]" || lines.includes("[DONE]")) {
    throw new Error("Cannot read the stream: it does not end with exactly one [DONE]");
  }
  return lines.map((line) => JSON.parse(line) as T);
}

/** The parsed body. */
export async function answer<T = unknown>(response: Response): Promise<T> {
  return (await response.json()) as T;
}

/** Message of an error body of either shape. */
export async function errorMessage(response: Response): Promise<string> {
  const body = await answer<{ message?: string; error?: string | { message: string } }>(response);
  const { message, error } = body;
  return message ?? (typeof error === "string" ? error : error!.message);
}

export interface GenerateAnswer {
  readonly text: string;
  readonly output_ids: readonly number[];
  readonly meta_info: {
    readonly id: string;
    readonly finish_reason: Readonly<Record<string, unknown>> | null;
    readonly prompt_tokens: number;
    readonly completion_tokens: number;
    readonly cached_tokens: number;
    readonly weight_version: string;
    readonly e2e_latency?: number;
    readonly spec_verify_ct?: number;
    readonly spec_accept_length?: number;
    readonly spec_accept_rate?: number;
    readonly spec_num_correct_drafts?: number;
    readonly spec_num_proposed_drafts?: number;
  };
  readonly index?: number;
}

export interface ChatEvent {
  readonly id: string;
  readonly object: string;
  readonly created: number;
  readonly model: string;
  readonly choices: readonly {
    readonly index: number;
    readonly delta: { readonly role: string | null; readonly content: string | null };
    readonly finish_reason: string | null;
    readonly matched_stop: number | string | null;
  }[];
  readonly usage: Readonly<Record<string, unknown>> | null;
}
