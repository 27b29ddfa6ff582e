/** `n` of sections 2.2 and 2.3 of the specification: several answers to one prompt. */
import { describe, expect, test } from "vitest";
import { createApp } from "../../../src/server/app.ts";
import { ScriptedEngine } from "../../support/engines/scripted_engine.ts";
import {
  answer,
  type ChatEvent,
  errorMessage,
  events,
  type GenerateAnswer,
  post,
} from "../../support/server/http_client.ts";

function setUp() {
  const engine = new ScriptedEngine();
  return { engine, app: createApp(engine) };
}

describe("/generate", () => {
  test("n answers make a list, whose requests differ in their seeds only", async () => {
    const { engine, app } = setUp();
    const body = { text: "abc", rid: "mine", sampling_params: { n: 3, sampling_seed: 5 } };
    const answers = await answer<GenerateAnswer[]>(await post(app, "/generate", body));
    expect(answers.map(({ text }) => text)).toEqual(["abc", "abc", "abc"]);
    const seeds = engine.requests.map(({ sampling }) => sampling!.seed);
    expect(seeds[0]).toBe(5);
    expect(new Set(seeds).size).toBe(3);
    // One id cannot name three answers.
    const ids = answers.map(({ meta_info }) => meta_info.id);
    const promptKey = engine.requests[0]!.promptKey;
    expect(promptKey).toEqual(expect.any(String));
    expect(engine.requests).toEqual(
      seeds.map((seed, i) => ({ prompt: "abc", promptKey, sampling: { seed }, requestId: ids[i] })),
    );
    expect(new Set(ids).size).toBe(3);
    expect(ids).not.toContain("mine");
  });

  test("answers to embeddings have one key, those to tokens need none", async () => {
    const { engine, app } = setUp();
    const row = new Array<number>(engine.model.hiddenSize).fill(0.5);
    const sampling_params = { n: 2 };
    await post(app, "/generate", { input_embeds: [row], sampling_params });
    await post(app, "/generate", { input_ids: [1], sampling_params });
    const [first, second, ...others] = engine.requests.map(({ promptKey }) => promptKey);
    expect(first).toEqual(expect.any(String));
    expect([second, ...others]).toEqual([first, undefined, undefined]);
  });

  test("128 seeds are 128 numbers of 32 bits", async () => {
    const { engine, app } = setUp();
    const sampling_params = { n: 128, sampling_seed: 0xffffffff };
    await post(app, "/generate", { text: "a", sampling_params });
    const seeds = engine.requests.map(({ sampling }) => sampling!.seed!);
    expect(new Set(seeds).size).toBe(128);
    expect(seeds.every((seed) => Number.isInteger(seed) && seed >= 0 && seed < 2 ** 32)).toBe(true);
  });

  test("without a seed the engine picks one for each", async () => {
    const { engine, app } = setUp();
    await post(app, "/generate", { text: "a", sampling_params: { n: 2 } });
    const promptKey = engine.requests[0]!.promptKey;
    const each = { prompt: "a", promptKey, sampling: {} };
    expect(engine.requests).toEqual([each, each]);
  });

  test("a batch answers all samples of a prompt before the next one's", async () => {
    const { engine, app } = setUp();
    const body = { text: ["a", "b"], rid: ["x", "y"], sampling_params: { n: 2 } };
    const answers = await answer<GenerateAnswer[]>(await post(app, "/generate", body));
    expect(answers.map(({ text }) => text)).toEqual(["a", "a", "b", "b"]);
    expect(engine.requests.map(({ prompt }) => prompt)).toEqual(["a", "a", "b", "b"]);
    // Each prompt is read once for its samples.
    const keys = engine.requests.map(({ promptKey }) => promptKey);
    expect(keys).toEqual([keys[0], keys[0], keys[2], keys[2]]);
    expect(keys[0]).not.toBe(keys[2]);
    const ids = engine.requests.map(({ requestId }) => requestId);
    expect(new Set([...ids, "x", "y"]).size).toBe(6);
  });

  test("chunks of a stream carry the position among all samples, each ends once", async () => {
    const { app } = setUp();
    const body = { text: ["ab", "c"], sampling_params: { n: 2 }, stream: true };
    const chunks = await events<GenerateAnswer>(await post(app, "/generate", body));
    for (const [index, text] of ["ab", "ab", "c", "c"].entries()) {
      const own = chunks.filter((chunk) => chunk.index === index);
      expect(own.at(-1)!.text).toBe(text);
      expect(own.filter(({ meta_info }) => meta_info.finish_reason !== null)).toHaveLength(1);
    }
  });

  test("every prompt of a batch wants the same number", async () => {
    const { app } = setUp();
    const same = { text: ["a", "b"], sampling_params: [{ n: 2 }, { n: 2, top_k: 3 }] };
    expect(await answer(await post(app, "/generate", same))).toHaveLength(4);
    for (const sampling_params of [
      [{ n: 2 }, { n: 3 }],
      [{ n: 2 }, null],
      [null, { n: 2 }],
    ]) {
      const response = await post(app, "/generate", { text: ["a", "b"], sampling_params });
      expect(response.status).toBe(400);
      expect(await errorMessage(response)).toContain(
        "sampling_params[1].n must be the same for all prompts",
      );
    }
  });

  test.each([
    ["return_logprob", [true]],
    ["logprob_start_len", [0]],
    ["top_logprobs_num", [1]],
    ["token_ids_logprob", [[1]]],
  ])("the list-valued %s is refused", async (name, value) => {
    const { app } = setUp();
    const body = { return_logprob: true, [name]: value, sampling_params: { n: 2 } };
    for (const text of ["a", ["a"]]) {
      const response = await post(app, "/generate", { text, ...body });
      expect(response.status).toBe(400);
      expect(await errorMessage(response)).toContain(
        `Cannot use list ${name} with parallel_sample_num > 1`,
      );
    }
  });

  test("log-probability fields of one value serve all samples", async () => {
    const { engine, app } = setUp();
    const body = { return_logprob: true, token_ids_logprob: [1, 2], sampling_params: { n: 2 } };
    expect((await post(app, "/generate", { text: "a", ...body })).status).toBe(200);
    expect(engine.requests.map(({ logprobs }) => logprobs?.tokenIds)).toEqual([
      [1, 2],
      [1, 2],
    ]);
  });

  test.each([
    [0, "must be at least 1 and at most 128, got 0"],
    [129, "must be at least 1 and at most 128, got 129"],
    [1.5, "must be an integer, got 1.5"],
  ])("n: %j is refused", async (n, problem) => {
    const response = await post(setUp().app, "/generate", { text: "a", sampling_params: { n } });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toBe(`sampling_params.n ${problem}`);
  });

  test("a client that leaves stops every sample", async () => {
    const { engine, app } = setUp();
    const sampling_params = { n: 3, max_new_tokens: null, ignore_eos: true };
    const response = await post(app, "/generate", { text: "ab", sampling_params, stream: true });
    const reader = response.body!.getReader();
    await reader.read();
    await reader.cancel();
    expect(engine.running).toEqual([]);
    expect(engine.cutShort).toHaveLength(3);
  });
});

describe("/v1/chat/completions", () => {
  const messages = [{ role: "user", content: "hi" }];
  const path = "/v1/chat/completions";

  test("n choices, one prompt in the usage", async () => {
    const { engine, app } = setUp();
    const response = await post(app, path, { messages, n: 3, seed: 7, rid: "mine" });
    const body = await answer<{ id: string; choices: object[]; usage: object }>(response);
    expect(body.choices).toEqual(
      [0, 1, 2].map((index) =>
        expect.objectContaining({
          index,
          message: expect.objectContaining({ content: "hi" }),
          finish_reason: "stop",
          matched_stop: 1,
        }),
      ),
    );
    expect(body.usage).toMatchObject({
      prompt_tokens: 2,
      completion_tokens: 9,
      total_tokens: 11,
    });
    expect(body.id).toBe("mine");
    const seeds = engine.requests.map(({ sampling }) => sampling!.seed);
    expect(seeds[0]).toBe(7);
    expect(new Set(seeds).size).toBe(3);
  });

  test("a stream has role and content of each choice, then a finish of each, then usage", async () => {
    const { app } = setUp();
    const stream_options = { include_usage: true };
    const body = { messages, n: 2, stream: true, stream_options, rid: "mine" };
    const chunks = await events<ChatEvent>(await post(app, path, body));
    for (const index of [0, 1]) {
      const own = chunks.filter(({ choices }) => choices[0]?.index === index);
      expect(new Set(own.map(({ id }) => id))).toEqual(new Set(["mine"]));
      expect(own.map(({ choices }) => choices[0]!.delta)).toMatchObject([
        { role: "assistant", content: "" },
        { role: null, content: "h" },
        { role: null, content: "i" },
        { role: null, content: null },
      ]);
      expect(own.map(({ choices }) => choices[0]!.finish_reason)).toEqual([
        null,
        null,
        null,
        "stop",
      ]);
    }
    expect(chunks.slice(-3).map(({ choices }) => choices.map(({ index }) => index))).toEqual([
      [0],
      [1],
      [],
    ]);
    expect(chunks.at(-1)!.usage).toMatchObject({ prompt_tokens: 2, completion_tokens: 6 });
  });

  test.each([0, 129])("n: %i is refused", async (n) => {
    const response = await post(setUp().app, path, { messages, n });
    expect(response.status).toBe(400);
    expect(await errorMessage(response)).toBe(`n must be at least 1 and at most 128, got ${n}`);
  });
});
