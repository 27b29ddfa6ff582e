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
// biome-ignore lint/suspicious/noExplicitAny: the tests look into events of every shape
export async function events(response: Response): Promise<any[]> {
  const lines = await eventLines(response);
  if (lines.pop() !== "[DONE]" || lines.includes("[DONE]")) {
    throw new Error("Cannot read the stream: it does not end with exactly one [DONE]");
  }
  return lines.map((line) => JSON.parse(line));
}
