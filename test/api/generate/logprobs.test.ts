/** Log-probabilities in the answers of both endpoints. */
import { describe, expect, test } from "vitest";
import { InvalidRequestError } from "../../../src/errors.ts";
import { createApp } from "../../../src/server/app.ts";
import { REPEATED_RESULTS } from "../../../src/server/routes/generate.ts";
import { ScoredEngine } from "../../support/engines/scored_engine.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import {
  answer,
  type ChatEvent,
  errorMessage,
  events,
  post,
} from "../../support/server/http_client.ts";

interface ScoredAnswer {
  readonly text: string;
  readonly meta_info: Readonly<Record<string, unknown>>;
  readonly index?: number;
}

const limited = { max_new_tokens: 2, ignore_eos: true };

describe("POST /generate", () => {
  test("repeats very many log-probabilities for so many tokens at a time that they stay few for each", async () => {
    const app = createApp(new ScoredEngine());
    const completionTokens = async (top_logprobs_num: number, stream_interval = 1) => {
      const body = {
        text: "x".repeat(100),
        sampling_params: { max_new_tokens: 8, ignore_eos: true, stream_interval },
        return_logprob: true,
        logprob_start_len: 0,
        top_logprobs_num,
        stream: true,
      };
      const all = await events<ScoredAnswer>(await post(app, "/generate", body));
      return all.map(({ meta_info }) => meta_info.completion_tokens);
    };
    expect(await completionTokens(600)).toEqual([1, 2, 3, 4, 5, 6, 7, 8]);
    // More than 65,536 with the first token, and more than twice that with none.
    expect(100 * 700).toBeGreaterThan(REPEATED_RESULTS);
    expect(await completionTokens(700)).toEqual([2, 4, 6, 8]);
    expect(await completionTokens(1024)).toEqual([2, 4, 6, 8]);
  });

  test("writes triples, with null for the first prompt token and for texts that the request did not ask for", async () => {
    const body = { text: "abc", sampling_params: limited, return_logprob: true };
    const { meta_info } = await answer<ScoredAnswer>(
      await post(createApp(new ScoredEngine()), "/generate", body),
    );
    expect(meta_info.input_token_logprobs).toEqual([[null, 99, null]]);
    expect(meta_info.output_token_logprobs).toEqual([
      [-0.97, 97, null],
      [-0.98, 98, null],
    ]);
    expect(Object.keys(meta_info).filter((key) => key.includes("logprobs"))).toHaveLength(2);
  });

  test("writes the likeliest and the given tokens where they are asked for", async () => {
    const body = {
      text: "abc",
      sampling_params: limited,
      return_logprob: true,
      logprob_start_len: 1,
      top_logprobs_num: 2,
      token_ids_logprob: [70],
      return_text_in_logprobs: true,
    };
    const { meta_info } = await answer<ScoredAnswer>(
      await post(createApp(new ScoredEngine()), "/generate", body),
    );
    expect(meta_info).toMatchObject({
      input_token_logprobs: [
        [null, 98, "b"],
        [-0.99, 99, "c"],
      ],
      input_top_logprobs: [
        null,
        [
          [-0.99, 99, "c"],
          [-1, 100, "d"],
        ],
      ],
      input_token_ids_logprobs: [null, [[-0.7, 70, "F"]]],
      output_token_logprobs: [
        [-0.97, 97, "a"],
        [-0.98, 98, "b"],
      ],
      output_token_ids_logprobs: [[[-0.7, 70, "F"]], [[-0.7, 70, "F"]]],
    });
    const top = meta_info.output_top_logprobs as unknown[][];
    expect(top.map((list) => list.length)).toEqual([2, 2]);
    expect(top[0]![0]).toEqual([-0.97, 97, "a"]);
  });

  test("only the prompts of a batch that ask for them have any", async () => {
    const body = {
      text: ["ab", "cd"],
      sampling_params: limited,
      return_logprob: [false, true],
    };
    const [first, second] = await answer<ScoredAnswer[]>(
      await post(createApp(new ScoredEngine()), "/generate", body),
    );
    expect(first!.meta_info).not.toHaveProperty("output_token_logprobs");
    expect(second!.meta_info.output_token_logprobs).toHaveLength(2);
  });

  test("a stream's lists grow as its text does", async () => {
    const body = {
      text: "abc",
      sampling_params: { ...limited, max_new_tokens: 3 },
      return_logprob: true,
      stream: true,
    };
    const all = await events<ScoredAnswer>(
      await post(createApp(new ScoredEngine()), "/generate", body),
    );
    const lengths = all.map(
      ({ meta_info }) => (meta_info.output_token_logprobs as unknown[]).length,
    );
    expect(lengths).toEqual([1, 2, 3]);
    expect(
      all.every(({ meta_info }) => (meta_info.input_token_logprobs as unknown[]).length === 1),
    ).toBe(true);
  });

  test("what only the engine can check is told with the names of the request", async () => {
    const refusing = (message: string, field: string): ScriptedEngine => {
      const script = () => ({ failure: { at: 0, error: new InvalidRequestError(message, field) } });
      return new ScriptedEngine({ script });
    };
    const start = "logprobs.promptStart";
    const first = refusing(`${start} must be -1 or a prompt position below 3, got 3`, start);
    expect(await errorMessage(await post(createApp(first), "/generate", { text: "abc" }))).toBe(
      "logprob_start_len must be -1 or a prompt position below 3, got 3",
    );
    const least = "minNewTokens must be 0 or below maxNewTokens (9), got 9";
    const second = createApp(refusing(least, "minNewTokens"));
    expect(await errorMessage(await post(second, "/generate", { text: "abc" }))).toBe(
      "sampling_params.min_new_tokens must be 0 or below sampling_params.max_new_tokens (9), got 9",
    );
    const messages = [{ role: "user", content: "abc" }];
    expect(await errorMessage(await post(second, "/v1/chat/completions", { messages }))).toBe(
      "min_tokens must be 0 or below max_tokens (9), got 9",
    );
  });
});

describe("POST /v1/chat/completions", () => {
  const body = {
    messages: [{ role: "user", content: "abc" }],
    max_tokens: 2,
    ignore_eos: true,
    logprobs: true,
    top_logprobs: 1,
  };
  const entry = (token: string, logprob: number) => ({
    token,
    bytes: [token.charCodeAt(0)],
    logprob,
    top_logprobs: [{ token, bytes: [token.charCodeAt(0)], logprob }],
  });

  test("writes one entry for each token", async () => {
    const { choices } = await answer<{ choices: { logprobs: unknown }[] }>(
      await post(createApp(new ScoredEngine()), "/v1/chat/completions", body),
    );
    expect(choices[0]!.logprobs).toEqual({ content: [entry("a", -0.97), entry("b", -0.98)] });
  });

  test("a stream writes them beside the text, each once", async () => {
    const all = await events<ChatEvent>(
      await post(createApp(new ScoredEngine()), "/v1/chat/completions", { ...body, stream: true }),
    );
    const logprobs = all.map(({ choices }) => (choices[0] as { logprobs?: unknown }).logprobs);
    expect(logprobs).toEqual([
      null,
      { content: [entry("a", -0.97)] },
      { content: [entry("b", -0.98)] },
      null,
    ]);
  });
});
