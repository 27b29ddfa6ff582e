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
    // Megabytes in each event, as it repeats all of them.
    input_ids: new Array<number>(100).fill(5),
    sampling_params: { max_new_tokens: 100, ignore_eos: true, stream_interval: 1 },
    return_logprob: true,
    return_text_in_logprobs: true,
    logprob_start_len: 0,
    top_logprobs_num: 300,
    stream: true,
  };
  const answer = await server.post("/generate", body, headers);
  expect(answer.status).toBe(200);
  await server.sees(/Abort request\. rid: unread/);
  await expect(answer.text()).rejects.toThrow();
}
