/**
 * A client that asks for more than sockets hold, and reads none of it.
 *
 * @module
 */
import { expect } from "vitest";
import type { ServingWisp } from "./wisp.ts";

/** Resolves once the server has left the client and says that its request was aborted. */
export async function leavesAnswersUnread(
  server: ServingWisp,
  headers: Readonly<Record<string, string>>,
): Promise<void> {
  const body = {
    rid: "unread",
    text: "Hello ".repeat(450),
    sampling_params: { max_new_tokens: 4, ignore_eos: true },
    return_logprob: true,
    return_text_in_logprobs: true,
    logprob_start_len: 0,
    top_logprobs_num: 1024,
    stream: true,
  };
  const answer = await server.post("/generate", body, headers);
  expect(answer.status).toBe(200);
  await server.sees(/Abort request\. rid: unread/);
  await expect(answer.text()).rejects.toThrow();
}
