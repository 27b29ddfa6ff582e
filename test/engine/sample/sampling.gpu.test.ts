import { afterAll, beforeAll, describe, expect, test } from "vitest";
import type { Engine, LocalRequest } from "../../../src/engine/engine.ts";
import { InvalidRequestError } from "../../../src/errors.ts";
import type { GenerationRequest } from "../../../src/generation.ts";
import type { PromptLogprobs, TokenLogprobs } from "../../../src/logprobs.ts";
import type { SamplingParams } from "../../../src/sampling_params.ts";
import { complete, openEngine } from "../../support/engines/engine.ts";

const GREEDY = { temperature: 0, ignoreEos: true, maxNewTokens: 10 };
/** Ends of a sequence in the embedded model. */
const END = "<｜end▁of▁sentence｜>";
const EOS = 1;

const prompt = (seed: number, length = 12) =>
  Array.from({ length }, (_, i) => 3 + ((seed * 97 + i * 31) % 2000));

interface Scored {
  readonly tokens: readonly number[];
  readonly logprobs: readonly TokenLogprobs[];
  readonly promptLogprobs: readonly PromptLogprobs[] | undefined;
}

async function scored(engine: Engine, request: GenerationRequest): Promise<Scored> {
  const tokens: number[] = [];
  const logprobs: TokenLogprobs[] = [];
  let promptLogprobs: readonly PromptLogprobs[] | undefined;
  for await (const chunk of engine.generate(request)) {
    tokens.push(...chunk.tokens);
    logprobs.push(...(chunk.logprobs ?? []));
    promptLogprobs ??= chunk.promptLogprobs;
  }
  return { tokens, logprobs, promptLogprobs };
}

describe("sampling of the embedded model", () => {
  let engine: Engine;
  beforeAll(async () => {
    engine = await openEngine({ pageSize: 4 });
  });
  afterAll(() => engine.close());

  const tokensOf = async (tokens: readonly number[], sampling: SamplingParams) =>
    (await complete(engine, { tokens, sampling })).tokens;

  test("minNewTokens keeps EOS and stop tokens away, ten tokens long", async () => {
    const sampling = { ...GREEDY, ignoreEos: false, logitBias: { [EOS]: 1e6 } };
    expect(await tokensOf(prompt(2), sampling)).toEqual([EOS]);
    const later = await tokensOf(prompt(2), { ...sampling, minNewTokens: 4, stopTokenIds: [77] });
    expect(later).toHaveLength(5);
    expect(later.indexOf(EOS)).toBe(4);
    expect(later).not.toContain(77);
  });

  test("penalties: a strong one never lets a token come twice", async () => {
    const plain = await tokensOf([5, 5, 5, 5], { ...GREEDY, maxNewTokens: 30 });
    expect(new Set(plain).size).toBeLessThan(30);
    const bias = { logitBias: { 77: 30, 78: 29, 79: 28 } };
    const few = { ...GREEDY, ...bias, maxNewTokens: 3 };
    expect(await tokensOf(prompt(3), few)).toEqual([77, 77, 77]);
    // One less each time they come: 30, 29, 28 -> 77, then 78 and 77 are level at 28 + their logits.
    const frequent = await tokensOf(prompt(3), { ...few, frequencyPenalty: 2, maxNewTokens: 8 });
    expect(new Set(frequent).size).toBeGreaterThan(1);
  });

  test.each([0, 1e-300])(
    "a repetition penalty of %d leaves every logit a number",
    async (least) => {
      const tokens = [40, 41, 42];
      const sampling = { ...GREEDY, repetitionPenalty: least, maxNewTokens: 4 };
      const seen: number[][] = [];
      const logitProcessors: LocalRequest["logitProcessors"] = [
        ({ logits }) => seen.push(Array.from(logits)),
      ];
      const request: LocalRequest = { tokens, sampling, logitProcessors };
      const { tokens: answer } = await complete(engine, request);
      expect(seen.flat().every(Number.isFinite)).toBe(true);
      const likeliest = (logits: readonly number[]) => logits.indexOf(Math.max(...logits));
      expect(answer).toEqual(seen.map(likeliest));
      const hot = { ...sampling, temperature: 1e-5, seed: 3 };
      expect((await complete(engine, { tokens, sampling: hot })).tokens).toEqual(answer);
    },
  );

  test("a prompt's tokens are repeated less, with the repetition penalty alone", async () => {
    const seen: number[][] = [];
    const watch = (strengths: SamplingParams) =>
      complete(engine, {
        tokens: [40, 41, 42],
        sampling: { ...GREEDY, maxNewTokens: 1, ...strengths },
        logitProcessors: [({ logits }) => seen.push(Array.from(logits.subarray(38, 46)))],
      } as LocalRequest);
    await watch({});
    await watch({ repetitionPenalty: 1.5 });
    await watch({ presencePenalty: 1, frequencyPenalty: 1 });
    const [plain, repeated, generatedOnly] = seen as [number[], number[], number[]];
    plain.forEach((logit, i) => {
      const occurs = i >= 2 && i <= 4;
      const want = occurs ? (logit < 0 ? logit * 1.5 : logit / 1.5) : logit;
      expect(repeated[i]).toBeCloseTo(want, 5);
    });
    expect(generatedOnly).toEqual(plain);
  });

  test("penalties follow the tokens exactly, step by step", async () => {
    const strengths = { repetitionPenalty: 1.2, frequencyPenalty: 0.5, presencePenalty: 0.25 };
    const tokens = prompt(4);
    const seen: { readonly tokens: number[]; readonly logits: Float32Array }[] = [];
    const request: LocalRequest = {
      tokens,
      sampling: { temperature: 1, seed: 3, ignoreEos: true, maxNewTokens: 12, ...strengths },
      logitProcessors: [
        (row) => seen.push({ tokens: [...row.tokens], logits: Float32Array.from(row.logits) }),
      ],
    };
    const answer = await complete(engine, request);
    expect(seen.map((row) => row.tokens.length)).toEqual(answer.tokens.map((_, i) => 12 + i));
    // The same tokens without penalties: logits before them.
    const plain: Float32Array[] = [];
    await complete(engine, {
      tokens,
      sampling: { temperature: 0, ignoreEos: true, maxNewTokens: 12 },
      logitProcessors: [
        ({ tokens: so, logits }) => {
          plain.push(Float32Array.from(logits));
          logits[answer.tokens[so.length - tokens.length]!] = 1e9;
        },
      ],
    } as LocalRequest);
    seen.forEach((row, i) => {
      const generated = row.tokens.slice(tokens.length);
      plain[i]!.forEach((logit, token) => {
        const count = generated.filter((one) => one === token).length;
        let want = logit;
        if (row.tokens.includes(token)) want = logit < 0 ? logit * 1.2 : logit / 1.2;
        want -= 0.5 * count + (count > 0 ? 0.25 : 0);
        expect(Math.abs(row.logits[token]! - want)).toBeLessThan(1e-4);
      });
    });
  });

  test("a processor's error ends its own request only", async () => {
    const beside = complete(engine, { tokens: prompt(5), sampling: GREEDY });
    const failing = complete(engine, {
      tokens: prompt(6),
      sampling: GREEDY,
      logitProcessors: [
        () => {
          throw new RangeError("no such logit");
        },
      ],
    } as LocalRequest);
    await expect(failing).rejects.toThrow("no such logit");
    expect((await beside).tokens).toEqual(await tokensOf(prompt(5), GREEDY));
  });

  test("every kind of row together has the tokens and log-probabilities it has alone", async () => {
    const kinds: SamplingParams[] = [
      { temperature: 0 },
      { temperature: 0, repetitionPenalty: 1.3 },
      { temperature: 1, minP: 0.1 },
      { temperature: 0.8, topP: 0.9, topK: 20 },
      { temperature: 1.2, frequencyPenalty: 0.7, presencePenalty: -0.4, topK: 50 },
      { temperature: 1, minNewTokens: 5, logitBias: { 50: 3, 51: -2 }, minP: 0.02, topP: 0.95 },
      { temperature: 0, logitBias: { 60: 4 } },
    ];
    const requests = kinds.map(
      (kind, i): GenerationRequest => ({
        tokens: prompt(i + 10, 9 + i),
        sampling: { ...kind, seed: i, ignoreEos: true, maxNewTokens: 10 },
        ...(i % 2 === 0 && { logprobs: { promptStart: i, topCount: 3, tokenIds: [9, 8] } }),
      }),
    );
    const alone: Scored[] = [];
    for (const request of requests) alone.push(await scored(engine, request));
    const together = await Promise.all(requests.map((request) => scored(engine, request)));
    expect(together).toEqual(alone);
  });

  test("log-probabilities of a greedy answer: the best comes first, whole entries are equal", async () => {
    const { tokens, logprobs, promptLogprobs } = await scored(engine, {
      tokens: prompt(7),
      sampling: { ...GREEDY, minNewTokens: 0 },
      logprobs: { topCount: 5, tokenIds: [5, 6, 5], text: true },
    });
    expect(promptLogprobs).toBeUndefined();
    expect(logprobs.map(({ token }) => token)).toEqual(tokens);
    for (const { token, logprob, text, top, given } of logprobs) {
      expect(top).toHaveLength(5);
      expect(top![0]).toEqual({ token, logprob, text });
      const values = top!.map((one) => one.logprob);
      expect([...values].sort((a, b) => b - a)).toEqual(values);
      expect(given!.map((one) => one.token)).toEqual([5, 6, 5]);
      expect(given![0]).toEqual(given![2]);
    }
  });

  test("promptStart limits what may come from the cache; -1 tells the last token, without a value", async () => {
    const tokens = prompt(9, 40);
    const sampling = { ...GREEDY, maxNewTokens: 1 };
    const all = await complete(engine, { tokens, sampling });
    expect(all.last.cachedTokens).toBe(0);
    const known = await complete(engine, { tokens, sampling });
    expect(known.last.cachedTokens).toBe(36);
    const from = async (promptStart: number) => {
      const request = { tokens, sampling, logprobs: { promptStart } };
      return (await complete(engine, request)).last.cachedTokens;
    };
    expect(await from(10)).toBe(8);
    expect(await from(-1)).toBe(36);
    const { promptLogprobs } = await scored(engine, {
      tokens,
      sampling,
      logprobs: { promptStart: -1 },
    });
    expect(promptLogprobs).toEqual([{ token: tokens[39], logprob: null, top: null, given: null }]);
  });

  test("noStopTrim leaves the stop string and the stop token's text in", async () => {
    const sampling = { temperature: 0, maxNewTokens: 20 };
    const messages = [{ role: "user", content: "What is the capital of Japan?" }] as const;
    const request = (more: SamplingParams) =>
      complete(engine, { messages, sampling: { ...sampling, ...more } });
    expect((await request({ stop: " is T", noStopTrim: true })).text).toBe(
      "The capital of Japan is T",
    );
    const shown = await request({ noStopTrim: true, skipSpecialTokens: false });
    expect(shown.last.finish).toEqual({ type: "stop", matched: EOS });
    expect(shown.text.length).toBeGreaterThan("The capital of Japan is Tokyo.".length);
    const named = await request({ noStopTrim: true, shownSpecialTokens: [END] });
    expect(named.text).toBe(`The capital of Japan is Tokyo.${END}`);
  });

  test.each<[string, Partial<GenerationRequest>]>([
    ["minP must be from 0 to 1, got 1.5", { sampling: { minP: 1.5 } }],
    ["repetitionPenalty must be from 0 to 2, got -0.1", { sampling: { repetitionPenalty: -0.1 } }],
    ["repetitionPenalty must be from 0 to 2, got 2.1", { sampling: { repetitionPenalty: 2.1 } }],
    ["frequencyPenalty must be from -2 to 2, got -2.5", { sampling: { frequencyPenalty: -2.5 } }],
    [
      "presencePenalty must be from -2 to 2, got NaN",
      { sampling: { presencePenalty: Number.NaN } },
    ],
    [
      "minNewTokens must be 0 or below maxNewTokens (5), got 5",
      { sampling: { minNewTokens: 5, maxNewTokens: 5 } },
    ],
    [
      "minNewTokens must be 0 or below maxNewTokens (128), got 128",
      { sampling: { minNewTokens: 128 } },
    ],
    [
      "minNewTokens must be a whole number of at least 0, got -1",
      { sampling: { minNewTokens: -1 } },
    ],
    [
      "logitBias must be a map of token ids below 2048, got 2048",
      { sampling: { logitBias: { 2048: 1 } } },
    ],
    [
      "logitBias[5] must be a finite number, got Infinity",
      { sampling: { logitBias: { 5: Infinity } } },
    ],
    [
      "logprobs.promptStart must be -1 or a prompt position below 1, got 1",
      { logprobs: { promptStart: 1 } },
    ],
    [
      "logprobs.topCount must be a whole number from 0 to 1024, got 1025",
      { logprobs: { topCount: 1025 } },
    ],
    ["logprobs.tokenIds must be token ids below 2048, got -1", { logprobs: { tokenIds: [-1] } }],
  ])("refused: %s", async (message, request) => {
    const first = engine.generate({ tokens: [5], ...request }).next();
    await expect(first).rejects.toBeInstanceOf(InvalidRequestError);
    await expect(first).rejects.toThrow(message);
  });
});
