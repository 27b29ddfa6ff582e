/** Prefill and decode engines with different numbers of ranks answer together what one rank does. */
import { describe, expect, test } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import type { EngineOptions } from "../../src/engine/engine_options.ts";
import { loadGroupEngines } from "../../src/engine/groups/attention_groups.ts";
import type { GenerationChunk, GenerationEngine, GenerationRequest } from "../../src/generation.ts";
import { ReplicatedEngine } from "../../src/parallel/replicas/replicated_engine.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { device, smallestCaseOnly } from "../support/devices/gpu.ts";
import { openEngine } from "../support/engines/engine.ts";
import { type ApartEngine, apart } from "../support/exactness/apart.ts";
import { llama } from "../support/synthetic/llama.ts";
import { syntheticSource } from "../support/synthetic/source.ts";

/** Two heads of keys, which four ranks have twice. */
const SIZES = {
  ...{ hidden_size: 256, intermediate_size: 512, vocab_size: 512, num_hidden_layers: 2 },
  ...{ head_dim: 64, num_attention_heads: 8, num_key_value_heads: 2, tie_word_embeddings: false },
};
const SHARED = { pageSize: 4, chunkedPrefillSize: 16, maxTotalTokens: 1024, contextLength: 256 };

type Open = (options: Partial<EngineOptions>) => Promise<Engine>;

const openLatent: Open = (options) => openEngine({ ...SHARED, ...options });
const openHeads: Open = (options) =>
  Engine.load(syntheticSource(llama(SIZES), 8), { device, ...SHARED, ...options });

interface Case {
  readonly open: Open;
  readonly options?: Partial<EngineOptions>;
  /** Ranks that compute prompts, those that answer, and tokens of a page of either. */
  readonly ranks: readonly (readonly [
    prefill: number,
    decode: number,
    prefillPages: number,
    decodePages: number,
  ])[];
}

const CASES: readonly (readonly [string, Case])[] = [
  [
    "latents",
    {
      open: openLatent,
      ranks: [
        [1, 2, 16, 3],
        [2, 1, 4, 4],
        [2, 2, 4, 16],
        [2, 4, 4, 4],
      ],
    },
  ],
  [
    "heads",
    {
      open: openHeads,
      ranks: [
        [1, 2, 4, 4],
        [2, 1, 64, 1],
        [2, 4, 4, 4],
        [4, 4, 4, 4],
      ],
    },
  ],
  [
    "heads in FP8",
    {
      open: openHeads,
      options: { cacheDtype: "fp8_e4m3" },
      ranks: [
        [4, 1, 4, 16],
        [1, 2, 4, 4],
      ],
    },
  ],
];

const ids = (count: number, from: number) =>
  Array.from({ length: count }, (_, i) => (7 * i * i + 3 * i + from) % 500);

const REQUESTS: readonly GenerationRequest[] = [
  { tokens: ids(45, 1), sampling: { temperature: 0, maxNewTokens: 8, ignoreEos: true } },
  {
    tokens: ids(21, 9),
    sampling: { temperature: 0.9, seed: 3, maxNewTokens: 8, ignoreEos: true },
    logprobs: { topCount: 2, promptStart: 0 },
  },
  // Most of its prompt is cached by then.
  { tokens: [...ids(45, 1), 5], sampling: { temperature: 1, seed: 2, maxNewTokens: 6 } },
];

async function answer(engine: Pick<GenerationEngine, "generate">, request: GenerationRequest) {
  const chunks: GenerationChunk[] = [];
  for await (const chunk of engine.generate(request)) chunks.push(chunk);
  return JSON.stringify({
    tokens: chunks.flatMap(({ tokens }) => tokens),
    logprobs: chunks.flatMap(({ logprobs = [] }) => logprobs),
    promptLogprobs: chunks.flatMap(({ promptLogprobs = [] }) => promptLogprobs),
    finish: chunks.at(-1)!.finish,
  });
}

async function answers(engine: Pick<GenerationEngine, "generate">) {
  const all = [];
  for (const request of REQUESTS) all.push(await answer(engine, request));
  return all;
}

describe.each(CASES)("%s", (_, { open, options, ranks }) => {
  let right: Promise<readonly string[]> | undefined;

  const ofOne = async () => {
    const engine = await open({ ...options });
    const all = await answers(engine);
    await engine.close();
    return all;
  };

  test.each(smallestCaseOnly ? ranks.slice(0, 1) : ranks)(
    "of %i ranks go to %i ranks, in pages of %i tokens, and stand in pages of %i",
    async (prefillRanks, decodeRanks, prefillPages, decodePages) => {
      right ??= ofOne();
      const travels = { ...options, transfersPages: true };
      const sides = [
        open({ ...travels, tensorParallelSize: prefillRanks, pageSize: prefillPages }),
        open({ ...travels, tensorParallelSize: decodeRanks, pageSize: decodePages }),
      ];
      const [prefill, decode] = (await Promise.all(sides)) as [Engine, Engine];
      const pair = apart(prefill, decode);
      expect(await answers(pair)).toEqual(await right);
      expect(await pair.left()).toEqual((await pair.left()).map(() => 0));
      const { pages, pageBytes } = pair.prefillRooms.figures;
      // 44 and 20 tokens, then 45, of which the decode server's cache has whole pages.
      const cached = Math.floor(45 / decodePages) * decodePages;
      const sent = [44, 20, 45].map((tokens) => Math.ceil(tokens / prefillPages));
      const kept = cached === 45 ? sent[2]! : Math.floor(cached / prefillPages);
      expect(pages).toBe(sent[0]! + sent[1]! + sent[2]! - kept);
      expect(pair.decodeRooms.figures).toMatchObject({ pages, pageBytes, failed: 0 });
      await pair.close();
    },
  );
});

/** Groups of ranks as one engine. */
async function openGroups(attentionGroups: number, ranks: number): Promise<ApartEngine> {
  const options = { ...SHARED, transfersPages: true, triesInvariance: false };
  const sizes = { attentionGroups, tensorParallelSize: ranks };
  const open = () => folderSource(EMBEDDED_MODEL);
  const engines = await loadGroupEngines(open, { device, ...options, ...sizes });
  const [{ pageLayout }] = engines as [Engine];
  const travellers = () =>
    engines
      .map((engine) => engine.travellers!)
      .reduce((sum, one) => ({
        leaving: sum.leaving + one.leaving,
        waiting: sum.waiting + one.waiting,
        arriving: sum.arriving + one.arriving,
      }));
  const all = Object.assign(new ReplicatedEngine(engines), { pageLayout });
  Object.defineProperty(all, "travellers", { get: travellers });
  return all as unknown as ApartEngine;
}

test.each([
  ["two groups of two ranks each", "one rank", 2, 4, 1],
  ["one rank", "two groups of one rank each", 1, 1, 2],
])("prompts of %s are answered by %s", async (_, __, prefillGroups, prefillRanks, decodeGroups) => {
  const openSide = (groups: number, ranks: number): Promise<ApartEngine> =>
    groups === 1
      ? openLatent({ transfersPages: true, tensorParallelSize: ranks })
      : openGroups(groups, ranks);
  const one = await openLatent({});
  const right = await answers(one);
  await one.close();
  const pair = apart(
    await openSide(prefillGroups, prefillRanks),
    await openSide(decodeGroups, decodeGroups),
  );
  // All at once, so that each group has some; the second time caches have them.
  for (let round = 0; round < 2; round++) {
    const all = REQUESTS.map((request) => answer(pair, request));
    expect(await Promise.all(all)).toEqual(right);
  }
  expect(await pair.left()).toEqual((await pair.left()).map(() => 0));
  expect(pair.decodeRooms.figures).toMatchObject({ opened: 6, failed: 0 });
  await pair.close();
});

test("another cache dtype is refused, with both values", async () => {
  const travels = { transfersPages: true };
  const [prefill, decode] = [
    await openLatent({ ...travels, tensorParallelSize: 2 }),
    await openLatent({ ...travels, cacheDtype: "f32" }),
  ];
  const pair = apart(prefill, decode);
  await expect(answer(pair, REQUESTS[0]!)).rejects.toThrow(/cache dtype is "\w+", .*"f32"/);
  await pair.close();
});
