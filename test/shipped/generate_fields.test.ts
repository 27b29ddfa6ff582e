/**
 * Every field of `/generate` with the installed server and the embedded model: its effect on an
 * answer, or that it is refused and named.
 */
import { describe, expect, test } from "vitest";
import { AS_THE_SCHEMAS, keyOrders } from "./support/key_order.ts";
import {
  type Answer,
  ask,
  batch,
  events,
  GREEDY,
  generate,
  PROMPT,
  refused,
  sample,
  server,
  withServer,
} from "./support/server.ts";

withServer();

/** Section 2.1. */
const GENERATE_FIELDS: Readonly<Record<string, () => Promise<unknown>>> = {
  text: async () => {
    const [one, two] = await batch({ text: [PROMPT, "Hello"] });
    expect(one!.text).toBe((await generate({ text: PROMPT })).text);
    expect(two!.text).not.toBe(one!.text);
  },
  input_ids: async () => {
    const { tokens } = await ask<{ tokens: number[] }>("/tokenize", { prompt: PROMPT });
    const answer = await generate({ input_ids: tokens });
    expect(answer.meta_info.prompt_tokens).toBe(tokens.length);
    expect(answer.text).toBe((await generate({ text: PROMPT })).text);
  },
  input_embeds: async () => {
    const width = 256;
    const row = Array.from({ length: width }, (_, i) => Math.sin(i) / 8);
    const response = await server.post("/generate", {
      input_embeds: [row, row],
      sampling_params: GREEDY,
    });
    // The embedded model's hidden size stands in the sentence where it is another.
    if (response.status === 200) {
      expect(((await response.json()) as Answer).meta_info.prompt_tokens).toBe(2);
      return;
    }
    const hidden = Number(/(\d+) numbers/.exec(await response.text())![1]);
    const { meta_info } = await generate({ input_embeds: [row.slice(0, hidden)] });
    expect(meta_info.prompt_tokens).toBe(1);
  },
  image_data: () => refused("/generate", { text: "a", image_data: "a.png" }, "image_data"),
  sampling_params: async () => {
    const list = [{ max_new_tokens: 1 }, { max_new_tokens: 2 }];
    const answers = await batch({ text: ["a", "b"], sampling_params: list });
    expect(answers.map(({ output_ids }) => output_ids.length)).toEqual([1, 2]);
  },
  data_parallel_rank: async () => {
    await generate({ text: "a", data_parallel_rank: 0 });
    await refused("/generate", { text: "a", data_parallel_rank: 1 }, "data_parallel_rank");
  },
  rid: async () => {
    expect((await generate({ text: "a", rid: "mine" })).meta_info.id).toBe("mine");
    const two = await batch({ text: ["a", "b"], rid: ["x", "y"] });
    expect(two.map(({ meta_info }) => meta_info.id)).toEqual(["x", "y"]);
  },
  return_logprob: async () => {
    const { meta_info } = await generate({ text: PROMPT, return_logprob: true });
    expect(meta_info.output_token_logprobs).toHaveLength(meta_info.completion_tokens);
    for (const [value] of meta_info.output_token_logprobs!) expect(value).toBeLessThanOrEqual(0);
  },
  logprob_start_len: async () => {
    const body = { text: PROMPT, return_logprob: true };
    const { meta_info } = await generate({ ...body, logprob_start_len: 1 });
    expect(meta_info.input_token_logprobs).toHaveLength(meta_info.prompt_tokens - 1);
    expect((await generate(body)).meta_info.input_token_logprobs).toHaveLength(1);
  },
  top_logprobs_num: async () => {
    const { meta_info } = await generate({ text: "a", return_logprob: true, top_logprobs_num: 3 });
    expect(meta_info.output_top_logprobs![0]).toHaveLength(3);
    expect(meta_info.output_top_logprobs![0]![0]).toEqual(meta_info.output_token_logprobs![0]);
  },
  return_text_in_logprobs: async () => {
    const body = { text: PROMPT, return_logprob: true, return_text_in_logprobs: true };
    const { text, meta_info } = await generate(body);
    const pieces = meta_info.output_token_logprobs!.map(([, , piece]) => piece);
    expect(pieces.every((piece) => typeof piece === "string")).toBe(true);
    expect(pieces.join("")).toContain(text.trim().slice(0, 3));
  },
  stream: async () => {
    const chunks = await events("/generate", { text: PROMPT, sampling_params: GREEDY });
    expect(chunks.at(-1)!.text).toBe((await generate({ text: PROMPT })).text);
    expect(chunks.length).toBeGreaterThan(2);
  },
};

/** The answer to a chat's prompt, which comes to its end. */
async function finished(params: object): Promise<Answer> {
  const messages = [{ role: "user", content: "What is the capital of Japan?" }];
  const { tokens } = await ask<{ tokens: number[] }>("/tokenize", { messages });
  return generate({ input_ids: tokens, sampling_params: { ...GREEDY, ...params } });
}

const count = (params: object) => sample(params).then(({ output_ids }) => output_ids.length);
const greedy = () => sample({ ignore_eos: true, max_new_tokens: 24 });
const others = (ids: readonly number[]) => new Set(ids).size;

/** Section 2.2. */
const SAMPLING_FIELDS: Readonly<Record<string, () => Promise<unknown>>> = {
  max_new_tokens: async () => {
    expect(await count({ max_new_tokens: 3, ignore_eos: true })).toBe(3);
  },
  stop: async () => {
    const { text } = await sample({ ignore_eos: true, max_new_tokens: 24 });
    const stop = text.slice(6, 9);
    const cut = await sample({ ignore_eos: true, max_new_tokens: 24, stop: [stop] });
    expect(text.startsWith(cut.text)).toBe(true);
    expect(cut.meta_info.finish_reason).toEqual({ type: "stop", matched: stop });
  },
  stop_token_ids: async () => {
    const { output_ids } = await sample({ max_new_tokens: 6 });
    const matched = output_ids[1]!;
    const { meta_info } = await sample({ stop_token_ids: [matched] });
    expect(meta_info.finish_reason).toEqual({ type: "stop", matched });
  },
  temperature: async () => {
    const hot = { temperature: 5, max_new_tokens: 24, ignore_eos: true };
    const answers = [await sample(hot), await sample(hot)];
    expect(answers[0]!.output_ids).not.toEqual(answers[1]!.output_ids);
    expect((await greedy()).output_ids).toEqual((await greedy()).output_ids);
  },
  top_p: () => isGreedy({ top_p: 1e-6 }),
  top_k: () => isGreedy({ top_k: 1 }),
  min_p: () => isGreedy({ min_p: 1 }),
  ignore_eos: async () => {
    const free = await finished({ max_new_tokens: 100 });
    const { completion_tokens } = (await finished({ max_new_tokens: 100, ignore_eos: true }))
      .meta_info;
    expect(free.meta_info.finish_reason!.type).toBe("stop");
    expect(completion_tokens).toBe(100);
  },
  skip_special_tokens: async () => {
    const whole = { max_new_tokens: 100, no_stop_trim: true };
    const shown = await finished({ ...whole, skip_special_tokens: false });
    const hidden = await finished(whole);
    expect(shown.output_ids).toEqual(hidden.output_ids);
    expect(shown.text.length).toBeGreaterThan(hidden.text.length);
  },
  spaces_between_special_tokens: async () => {
    // Only tokenizers without a tokenizer.json know it; it is taken all the same.
    const apart = await sample({ spaces_between_special_tokens: false });
    expect(apart.text).toBe((await sample({})).text);
  },
  n: async () => {
    const answers = await batch({ text: PROMPT, sampling_params: { ...GREEDY, n: 3 } });
    expect(answers).toHaveLength(3);
  },
  json_schema: async () => {
    const json_schema = JSON.stringify({ enum: ["yes", "no"] });
    expect((await sample({ json_schema })).text).toMatch(/^"(yes|no)"$/);
  },
  json_order: async () => {
    const inOrder = (more: object) => sample({ ...more, json_order: "schema", max_new_tokens: 60 });
    expect(await keyOrders(async (more) => (await inOrder(more)).text)).toEqual(AS_THE_SCHEMAS);
  },
  json_unknown: async () => {
    const json_schema = JSON.stringify({ enum: ["yes"], enumNames: ["Yes"] });
    const { text, meta_info } = await sample({ json_schema });
    expect(text).toBe('"yes"');
    expect(JSON.stringify(meta_info)).toContain("enumNames");
    const sampling_params = { json_schema, json_unknown: "refuse" };
    const refused = await server.post("/generate", { text: PROMPT, sampling_params });
    expect(refused.status).toBe(400);
  },
  regex: async () => {
    expect((await sample({ regex: "[0-9]{3}" })).text).toMatch(/^[0-9]{3}$/);
  },
  ebnf: async () => {
    expect((await sample({ ebnf: 'root ::= "up" | "down"' })).text).toMatch(/^(up|down)$/);
  },
  frequency_penalty: async () => {
    const { output_ids } = await sample({
      max_new_tokens: 24,
      ignore_eos: true,
      frequency_penalty: 2,
    });
    expect(others(output_ids)).toBeGreaterThan(others((await greedy()).output_ids));
  },
  presence_penalty: async () => {
    const likelihoods = async (params: object) => {
      const sampling_params = { ...GREEDY, ignore_eos: true, ...params };
      const body = { text: PROMPT, return_logprob: true, sampling_params };
      return (await generate(body)).meta_info.output_token_logprobs!;
    };
    const [plain, penalized] = [await likelihoods({}), await likelihoods({ presence_penalty: -2 })];
    // The first token has nothing before it that could be penalized.
    expect(penalized[0]).toEqual(plain[0]);
    expect(penalized).not.toEqual(plain);
  },
  repetition_penalty: async () => {
    const { output_ids } = await sample({
      max_new_tokens: 24,
      ignore_eos: true,
      repetition_penalty: 2,
    });
    expect(output_ids).not.toEqual((await greedy()).output_ids);
  },
  min_new_tokens: async () => {
    const { meta_info } = await finished({ max_new_tokens: 100, min_new_tokens: 90 });
    expect(meta_info.completion_tokens).toBeGreaterThanOrEqual(90);
  },
};

/** A filter that leaves the likeliest token only. */
async function isGreedy(filter: object): Promise<void> {
  const params = { max_new_tokens: 24, ignore_eos: true, temperature: 1, ...filter };
  expect((await sample(params)).output_ids).toEqual((await greedy()).output_ids);
}

describe("fields of /generate", () => {
  test.each(Object.keys(GENERATE_FIELDS))("%s", async (name) => {
    await GENERATE_FIELDS[name]!();
  });
});

describe("sampling_params", () => {
  test.each(Object.keys(SAMPLING_FIELDS))("%s", async (name) => {
    await SAMPLING_FIELDS[name]!();
  });
});
