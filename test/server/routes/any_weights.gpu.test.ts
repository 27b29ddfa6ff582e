/** What holds whatever the weights are: random ones, over HTTP and with a real engine behind it. */
import type { Hono } from "hono";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Engine } from "../../../src/engine/engine.ts";
import type { EngineOptions } from "../../../src/engine/engine_options.ts";
import { createApp } from "../../../src/server/app.ts";
import { device, fullTest, seeded, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { StepWatch } from "../../support/engines/watch_steps.ts";
import { answer, type GenerateAnswer, post } from "../../support/server/http_client.ts";
import { syntheticSource } from "../../support/synthetic/source.ts";
import { tinyDeepseek, tinyLlama } from "../../support/synthetic/tiny_models.ts";

type Triple = readonly [logprob: number | null, token: number, text: string | null];

interface ScoredAnswer extends GenerateAnswer {
  readonly meta_info: GenerateAnswer["meta_info"] & {
    readonly input_token_logprobs?: readonly Triple[];
    readonly output_token_logprobs?: readonly Triple[];
    readonly input_top_logprobs?: readonly (readonly Triple[] | null)[];
    readonly output_top_logprobs?: readonly (readonly Triple[])[];
    readonly input_token_ids_logprobs?: readonly (readonly Triple[] | null)[];
    readonly output_token_ids_logprobs?: readonly (readonly Triple[])[];
  };
}

const VOCABULARY = 12_000;

/** Prompts that are prefixes of each other, and the tokens of each that the ones before it left. */
const LONG_PREFIXES = [
  [100, 0],
  [10_000, 100],
  [10_000, 9_999],
  [1_000, 999],
  [11_000, 10_000],
] as const;
const SHORT_PREFIXES = [
  [100, 0],
  [1_000, 100],
  [1_000, 999],
  [300, 299],
  [1_100, 1_000],
] as const;
/** Tokens that are generated and then scored as a prompt. */
const RESCORED = smallestCaseOnly ? 64 : 512;
/** Requests of each of the eight clients. */
const ROUNDS = fullTest ? 8 : smallestCaseOnly ? 1 : 3;
/** Prompt of a request that is to be aborted. */
const LONG_PROMPT = fullTest ? 16_000 : smallestCaseOnly ? 300 : 2_000;

interface Model {
  readonly name: string;
  readonly make: typeof tinyLlama;
  readonly options?: Partial<EngineOptions>;
  /** How far log-probabilities of generated tokens may be from those of the same tokens in a prompt. */
  readonly apart: number;
}

const MODELS: readonly Model[] = [
  // One form of attention: the very same bits.
  { name: "grouped-query attention", make: tinyLlama, apart: 0 },
  // Measured: 4.3e-6.
  { name: "latent attention", make: tinyDeepseek, apart: 5e-5 },
  {
    name: "latent attention, deterministic inference",
    make: tinyDeepseek,
    options: { deterministicInference: true },
    apart: 0,
  },
];

const open = ({ make, options }: Model, more: Partial<EngineOptions> = {}) =>
  Engine.load(syntheticSource(make(), 1), {
    device,
    maxTotalTokens: 16_384,
    maxRowsPerStep: 1024,
    ...options,
    ...more,
  });

const range = (length: number) => Array.from({ length }, (_, id) => id);

const randomIds = (seed: number, length: number) => {
  const random = seeded(seed);
  return Array.from({ length }, () => Math.floor(random() * VOCABULARY));
};

function expectIdle(engine: Engine): void {
  expect(engine.status()).toMatchObject({
    healthy: true,
    runningRequests: 0,
    queuedRequests: 0,
    usedTokens: 0,
  });
}

/** What a request asks for, and what its answer must look like for it. */
interface Asked {
  readonly input_ids: readonly number[];
  readonly return_logprob?: boolean;
  readonly logprob_start_len?: number;
  readonly top_logprobs_num?: number;
  readonly token_ids_logprob?: readonly number[];
  readonly sampling_params: {
    readonly max_new_tokens: number;
    readonly ignore_eos: true;
    readonly temperature: number;
  } & Readonly<Record<string, unknown>>;
}

function expectCounts(asked: Asked, { output_ids, meta_info }: ScoredAnswer): void {
  const { input_ids, sampling_params, token_ids_logprob: ids, top_logprobs_num: top = 0 } = asked;
  const count = Math.max(sampling_params.max_new_tokens, 1);
  expect(meta_info.prompt_tokens).toBe(input_ids.length);
  expect(meta_info.completion_tokens).toBe(count);
  expect(output_ids).toHaveLength(count);
  const lists = Object.keys(meta_info).filter((name) => name.endsWith("_logprobs"));
  expect(lists).toHaveLength(
    asked.return_logprob === true ? 2 + (top > 0 ? 2 : 0) + (ids === undefined ? 0 : 2) : 0,
  );
  if (asked.return_logprob !== true) return;

  const { logprob_start_len: given = -1 } = asked;
  const start = given === -1 ? input_ids.length - 1 : given;
  const [input, output] = [meta_info.input_token_logprobs!, meta_info.output_token_logprobs!];
  expect(input.length + start).toBe(meta_info.prompt_tokens);
  expect(input.map(([, token]) => token)).toEqual(input_ids.slice(start));
  expect(input.map(([logprob]) => logprob === null)).toEqual(input.map((_, i) => i === 0));
  expect(output.map(([, token]) => token)).toEqual(output_ids);
  for (const [logprob] of [...input.slice(1), ...output]) expect(logprob).toBeLessThanOrEqual(0);
  if (top > 0) {
    const [before, after] = [meta_info.input_top_logprobs!, meta_info.output_top_logprobs!];
    expect(before.map((list) => list?.length)).toEqual(input.map((_, i) => (i ? top : undefined)));
    expect(after.map((list) => list.length)).toEqual(output.map(() => top));
    for (const list of [...before.slice(1), ...after]) {
      const values = list!.map(([logprob]) => logprob!);
      expect(values).toEqual([...values].sort((a, b) => b - a));
    }
    if (sampling_params.temperature === 0) expect(output).toEqual(after.map(([best]) => best));
  }
  if (ids !== undefined) {
    const tokens = meta_info.output_token_ids_logprobs!.map((list) => list.map(([, id]) => id));
    expect(tokens).toEqual(output.map(() => ids));
    expect(meta_info.input_token_ids_logprobs).toHaveLength(input.length);
  }
}

/** Requests of many lengths, some with log-probabilities of every kind and some without. */
function askedBy(client: number, round: number): Asked {
  const i = client + 8 * round;
  const length = [1, 2, 17, 64, 129, 260, 33, 5][(client + 3 * round) % 8]!;
  const greedy = i % 3 === 0;
  return {
    input_ids: randomIds(i, length),
    ...(i % 2 === 0 && {
      return_logprob: true,
      ...(i % 4 === 0 && { logprob_start_len: Math.floor(length / (1 + (i % 5))) % length }),
      ...((i >> 1) % 3 > 0 && { top_logprobs_num: 1 + (i % 6) }),
      ...((i >> 1) % 4 === 3 && { token_ids_logprob: [i, 0, VOCABULARY - 1, i] }),
    }),
    sampling_params: {
      max_new_tokens: (5 * i) % 24,
      ignore_eos: true,
      temperature: greedy ? 0 : 1,
      sampling_seed: i,
      ...(i % 5 === 0 && { frequency_penalty: 0.5, top_k: 40 }),
    },
  };
}

describe.each(smallestCaseOnly ? MODELS.slice(0, 2) : MODELS)("$name", (model) => {
  let engine: Engine;
  let app: Hono;
  beforeAll(async () => {
    engine = await open(model);
    app = createApp(engine);
  });
  afterAll(async () => {
    expectIdle(engine);
    await engine.close();
  });

  const generate = async <T = ScoredAnswer>(body: object) =>
    answer<T>(await post(app, "/generate", body));

  test("cached_tokens of prompts that begin like those before them", async () => {
    await engine.flushCache();
    // One form of attention takes three times as long over the long ones.
    const long = fullTest || (model.options === undefined && !smallestCaseOnly);
    const prefixes = long ? LONG_PREFIXES : SHORT_PREFIXES;
    const found: number[] = [];
    for (const [length] of prefixes) {
      const sampling_params = { max_new_tokens: 1 };
      const { meta_info } = await generate({ input_ids: range(length), sampling_params });
      found.push(meta_info.cached_tokens);
    }
    expect(found).toEqual(prefixes.map(([, cached]) => cached));
  });

  test("tokens that were generated are as likely when they stand in a prompt", async () => {
    const input_ids = randomIds(1, 20);
    const sampling_params = { max_new_tokens: RESCORED, ignore_eos: true, sampling_seed: 3 };
    const body = { return_logprob: true, sampling_params };
    const first = await generate({ ...body, input_ids });
    const again = await generate({
      ...body,
      input_ids: [...input_ids, ...first.output_ids],
      logprob_start_len: 0,
      sampling_params: { max_new_tokens: 0 },
    });
    expect(again.meta_info.finish_reason).toEqual({ type: "length", length: 0 });
    const scored = again.meta_info.input_token_logprobs!.slice(20);
    expect(scored).toHaveLength(RESCORED);
    const apart = scored.map(([logprob], i) =>
      Math.abs(logprob! - first.meta_info.output_token_logprobs![i]![0]!),
    );
    expect(Math.max(...apart)).toBeLessThanOrEqual(model.apart);
  });

  test("eight clients at once: each answer has the counts that its request asked for", async () => {
    const watch = new StepWatch();
    const client = async (c: number) => {
      const answers: [Asked, ScoredAnswer][] = [];
      for (let round = 0; round < ROUNDS; round++) {
        const asked = askedBy(c, round);
        answers.push([asked, await generate({ ...asked, rid: `${c}-${round}` })]);
      }
      return answers;
    };
    const all = await Promise.all(Array.from({ length: 8 }, (_, c) => client(c)));
    watch.stop();
    expect(Math.max(...watch.steps.map(({ requestIds }) => requestIds.length))).toBe(8);
    for (const [asked, got] of all.flat()) expectCounts(asked, got);
    // A batch of the same prompts has the same answers: of the greedy and of the seeded.
    const some = all.flat().filter(([asked]) => asked.return_logprob !== true);
    const batch = await generate<ScoredAnswer[]>({
      input_ids: some.map(([asked]) => asked.input_ids),
      sampling_params: some.map(([asked]) => asked.sampling_params),
    });
    expect(batch.map(({ output_ids }) => output_ids)).toEqual(
      some.map(([, got]) => got.output_ids),
    );
  });

  test("a bias forces a token or forbids it, and changes no bit of its neighbours", async () => {
    const greedy = { max_new_tokens: 6, ignore_eos: true, temperature: 0 };
    const seeded = { ...greedy, temperature: 1, sampling_seed: 8 };
    const input_ids = [randomIds(5, 30), randomIds(6, 30)];
    const logprobs = { return_logprob: true, logprob_start_len: 0, top_logprobs_num: 4 };
    const plain = { input_ids, ...logprobs, sampling_params: [greedy, seeded] };
    const alone = await generate<ScoredAnswer[]>(plain);
    const [most] = alone[0]!.output_ids;
    const watch = new StepWatch();
    const [beside, biased] = await Promise.all([
      generate<ScoredAnswer[]>({ ...plain, rid: "plain" }),
      generate<ScoredAnswer[]>({
        input_ids: [input_ids[0], input_ids[1], input_ids[0]],
        sampling_params: [
          { ...greedy, logit_bias: { "11999": 1e9 } },
          { ...seeded, logit_bias: { "0": 1e9 } },
          { ...greedy, logit_bias: { [String(most)]: -1e9 } },
        ],
      }),
    ]);
    watch.stop();
    expect(watch.mostBeside("plain_0")).toBe(5);
    expect(biased.map(({ output_ids }) => output_ids).slice(0, 2)).toEqual([
      Array(6).fill(11_999),
      Array(6).fill(0),
    ]);
    expect(biased[2]!.output_ids).toHaveLength(6);
    expect(biased[2]!.output_ids).not.toContain(most);
    alone.forEach(({ output_ids, meta_info }, i) => {
      const { id: _, e2e_latency: __, cached_tokens: ___, ...told } = meta_info;
      expect(beside[i]).toMatchObject({ output_ids, meta_info: told });
    });
  });
});

describe("full house", () => {
  const [model] = MODELS as readonly [Model, ...Model[]];
  const count = 32;
  const bodies = Array.from({ length: count }, (_, i) => ({
    input_ids: randomIds(100 + i, LONG_PROMPT),
    sampling_params: { max_new_tokens: 300, ignore_eos: true },
  }));
  const room = { maxRunningRequests: 8, maxTotalTokens: 8 * 16_384 };

  /** Some run and the others wait. */
  const untilBusy = async (engine: Engine) => {
    for (;;) {
      const { runningRequests, queuedRequests } = engine.status();
      if (runningRequests > 0 && runningRequests + queuedRequests === count) return;
      await new Promise((resolve) => setTimeout(resolve, 1));
    }
  };

  test("clients that all leave while prompts are computed end all of it, and the next one is served", async () => {
    const engine = await open(model, room);
    const app = createApp(engine);
    const aborts = bodies.map(() => new AbortController());
    const answers = bodies.map((body, i) =>
      post(app, "/generate", body, { signal: aborts[i]!.signal }),
    );
    await untilBusy(engine);
    for (const abort of aborts) abort.abort();
    await Promise.all(answers);
    expectIdle(engine);
    const next = await post(app, "/generate", {
      input_ids: range(40),
      sampling_params: { max_new_tokens: 3 },
    });
    expect(next.status).toBe(200);
    expectIdle(engine);
    await engine.close();
  });

  test("signals that all fire while tokens are generated end all of it", async () => {
    const engine = await open(model, room);
    let hasGenerated = () => {};
    const generated = new Promise<void>((resolve) => {
      hasGenerated = resolve;
    });
    const aborts = bodies.map(() => new AbortController());
    const endings = bodies.map(async ({ input_ids, sampling_params }, i) => {
      const sampling = { maxNewTokens: sampling_params.max_new_tokens, ignoreEos: true };
      const request = { tokens: input_ids, sampling, signal: aborts[i]!.signal };
      for await (const { finish, tokens } of engine.generate(request)) {
        expect(finish).toBeNull();
        if (tokens.length > 0) hasGenerated();
      }
    });
    await generated;
    expect(engine.status()).toMatchObject({ runningRequests: 8, queuedRequests: count - 8 });
    for (const abort of aborts) abort.abort();
    for (const ending of await Promise.allSettled(endings)) {
      expect(ending).toMatchObject({ status: "rejected", reason: { name: "AbortError" } });
    }
    expectIdle(engine);
    await engine.close();
  });

  test("a closed engine answers every request with an abort", async () => {
    const engine = await open(model, room);
    const app = createApp(engine);
    const answers = bodies.map((body) => post(app, "/generate", body));
    await untilBusy(engine);
    await engine.close();
    for (const response of await Promise.all(answers)) {
      expect(response.status).toBe(200);
      const { meta_info } = await answer<GenerateAnswer>(response);
      expect(meta_info.finish_reason).toMatchObject({ type: "abort" });
    }
    expect(engine.status()).toMatchObject({ runningRequests: 0, queuedRequests: 0, usedTokens: 0 });
  });

  test("one place and one that waits: of ten at once some are refused, of ten in a row none", async () => {
    const engine = await open(model, { maxRunningRequests: 1, maxQueuedRequests: 1 });
    const app = createApp(engine);
    const body = { input_ids: range(50), sampling_params: { max_new_tokens: 5, ignore_eos: true } };
    const request = () => post(app, "/generate", body);
    const together = await Promise.all(Array.from({ length: 10 }, request));
    const statuses = new Set(together.map(({ status }) => status));
    expect([...statuses].sort()).toEqual([200, 503]);
    for (let i = 0; i < 10; i++) expect((await request()).status).toBe(200);
    expectIdle(engine);
    await engine.close();
  });
});
