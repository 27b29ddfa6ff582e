/** What answers hold of log-probabilities, until their clients have them. */
import { expect, test } from "vitest";
import type { GenerationChunk, GenerationRequest } from "../../../src/generation.ts";
import { createApp } from "../../../src/server/app.ts";
import { ScoredEngine } from "../../support/engines/scored_engine.ts";
import { errorMessage, post } from "../../support/server/http_client.ts";

const MIB = 2 ** 20;

/** Says of each request that its log-probabilities take 100 MiB. */
class LargeEngine extends ScoredEngine {
  override async *generate(
    request: GenerationRequest & { readonly signal?: AbortSignal },
  ): AsyncGenerator<GenerationChunk, void> {
    let isFirst = true;
    for await (const chunk of super.generate(request)) {
      yield isFirst ? { ...chunk, logprobBytes: 100 * MIB } : chunk;
      isFirst = false;
    }
  }
}

const tokens = (count: number) => ({ max_new_tokens: count, ignore_eos: true });
/** More tokens with others beside each than are written in one piece. */
const LONG = {
  text: "a",
  return_logprob: true,
  top_logprobs_num: 20,
  sampling_params: tokens(400),
};
const FULL =
  "Cannot reserve memory for log-probabilities: 104857600 bytes are wanted and 58720256 of 268435456 are left; an answer that its client has read gives its own back";

test.each([true, false])("is bounded for all answers together (streamed: %s)", async (stream) => {
  const engine = new LargeEngine();
  const app = createApp(engine);
  // Every event has all so far, so that few tokens are enough.
  const body = stream ? { ...LONG, stream, sampling_params: tokens(20) } : LONG;
  const ask = () => post(app, "/generate", body);
  const held = [await ask(), await ask()];
  expect(held.map(({ status }) => status)).toEqual([200, 200]);
  const refused = await ask();
  expect([refused.status, await errorMessage(refused)]).toEqual([503, FULL]);
  // One is read to its end, and of the other the client leaves.
  await held[0]!.text();
  const second = await ask();
  expect(second.status).toBe(200);
  await held[1]!.body!.cancel();
  const third = await ask();
  expect(third.status).toBe(200);
  await Promise.all([second.text(), third.text()]);
  expect(engine.running).toEqual([]);
});

test("of an answer that fails, or is short, is given back at once", async () => {
  const failure = { at: 1, error: new Error("broken") };
  const engine = new LargeEngine({ script: ({ prompt }) => (prompt === "b" ? { failure } : {}) });
  const app = createApp(engine, { reportError: () => {} });
  for (let i = 0; i < 4; i++) {
    expect((await post(app, "/generate", { ...LONG, text: "b" })).status).toBe(500);
    const short = { ...LONG, sampling_params: tokens(2) };
    expect((await post(app, "/generate", short)).status).toBe(200);
  }
});

test("several answers that could never be held together are refused as they are", async () => {
  const engine = new LargeEngine();
  const body = { ...LONG, sampling_params: { ...tokens(2), n: 3 } };
  const response = await post(createApp(engine), "/generate", body);
  expect(response.status).toBe(400);
  expect(await errorMessage(response)).toBe(
    "Cannot tell the log-probabilities of all answers: they take 314572800 bytes, and there are 268435456",
  );
  expect(engine.running).toEqual([]);
});

test("a list of more ids than a request may ask for is refused before it is read", async () => {
  const engine = new ScoredEngine();
  const token_ids_logprob = Array.from({ length: 4097 }, () => "no number");
  const body = { text: "a", return_logprob: true, token_ids_logprob };
  const response = await post(createApp(engine), "/generate", body);
  expect([response.status, await errorMessage(response)]).toEqual([
    400,
    "token_ids_logprob must have at most 4096 token ids, got 4097",
  ]);
});
