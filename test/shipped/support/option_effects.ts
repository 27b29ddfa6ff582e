/**
 * What shows that an option works, where that takes several requests.
 *
 * @module
 */
import { expect } from "vitest";
import type { ServingWisp } from "./wisp.ts";

type Headers = Readonly<Record<string, string>>;

/** A server that has a page gives it without a key and says where it is; one without has none. */
export async function hasPage(
  server: ServingWisp,
  isThere: boolean,
  headers: Headers = {},
): Promise<void> {
  expect((await server.get("/", headers)).status).toBe(isThere ? 200 : 404);
  if (isThere) await server.sees(/^Chat: open http:/m);
  else expect(server.output()).not.toContain("Chat: open");
}

/** What the model thinks of a question, as far as the server tells it apart. */
export async function reasoningOf(server: ServingWisp, headers: Headers): Promise<string | null> {
  const chat = { messages: [{ role: "user", content: "Who are you?" }], max_tokens: 20 };
  const answer = await server.post("/v1/chat/completions", chat, headers);
  const { choices } = (await answer.json()) as {
    choices: [{ message: { reasoning_content: string | null } }];
  };
  return choices[0].message.reasoning_content;
}
