import { afterEach, beforeAll, describe, expect, test, vi } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import type { EngineOptions } from "../../../src/engine/engine_options.ts";
import type { TokenLogprobs } from "../../../src/logprobs.ts";
import { randomDeepseek, SMALL_DEEPSEEK } from "../../support/checkpoints/random_deepseek.ts";
import { device, seeded, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { openEngine } from "../../support/engines/engine.ts";
import { ModelSession } from "../../support/engines/model_session.ts";

const CONTEXT = 2048;
const LAYERS = SMALL_DEEPSEEK.num_hidden_layers;
/** Gathering, expanding and attending, in each layer. */
const PASS_LAUNCHES = 3 * LAYERS;
const SPLIT = 256;
const ROWS = 256;
/** Latent, rope part, and keys and values of four heads, in f32. */
const ENTRY_BYTES = 4 * (24 + 8 + 4 * (20 + 12));

/** Tokens in the cache, and tokens of the step behind them. */
const PROMPTS: readonly (readonly [cached: number, fresh: number])[] = smallestCaseOnly
  ? [
      [520, 10],
      [0, 20],
    ]
  : [
      [1270, 30],
      [650, 50],
      [0, 40],
    ];

const random = seeded(11);
const TOKENS = PROMPTS.map(([cached, fresh]) =>
  Array.from({ length: cached + fresh }, () => Math.floor(random() * SMALL_DEEPSEEK.vocab_size)),
);

const source = () =>
  randomDeepseek({ config: { max_position_embeddings: CONTEXT }, dtype: "BF16", seed: 3 });

const openSession = (options: Partial<EngineOptions>) =>
  ModelSession.open(source(), { maxRowsPerStep: ROWS, contextLength: CONTEXT, ...options });

afterEach(() => {
  vi.restoreAllMocks();
});

/** Sizes of the buffers that a load makes for the workspace. */
function watchWorkspace(): () => number {
  let bytes = 0;
  const create = device.createBuffer.bind(device);
  vi.spyOn(device, "createBuffer").mockImplementation((descriptor) => {
    const isPart = /^(gathered|expanded)/.test(descriptor.label ?? "");
    // The smallest a buffer can be stands for nothing.
    if (isPart && descriptor.size > 16) bytes += descriptor.size;
    return create(descriptor);
  });
  return () => bytes;
}

/** The last rows of all prompts in one step, over prefixes that are in the cache. */
async function run(options: Partial<EngineOptions>) {
  const workspace = watchWorkspace();
  const session = await openSession(options);
  const { memoryBudget, runner } = session.loaded;
  expect(workspace()).toBe(memoryBudget.workspaceBytes);
  const sequences = TOKENS.map((tokens, i) => session.sequence(tokens, i));
  for (const [i, sequence] of sequences.entries()) {
    const [cached] = PROMPTS[i]!;
    while (sequence.computed < cached) {
      const count = Math.min(ROWS, cached - sequence.computed);
      await session.run([{ sequence, phase: "prefill", count }]);
    }
  }
  const before = runner.recorder.launches;
  const rows = sequences.map((sequence, i) => {
    return { sequence, phase: "prefill", count: PROMPTS[i]![1] } as const;
  });
  const logits = await session.run(rows);
  const launches = runner.recorder.launches - before;
  session.close();
  return { bits: logits.map((row) => new Uint32Array(row.buffer)), launches, memoryBudget };
}

interface Case {
  readonly name: string;
  readonly options: Partial<EngineOptions>;
  readonly capacity: number;
  readonly passes: number;
}

const CASES: readonly Case[] = [
  {
    name: "threshold 0",
    options: { chunkedPrefixThreshold: 0 },
    capacity: 2 * SPLIT,
    passes: smallestCaseOnly ? 2 : 5,
  },
  {
    name: "a small threshold",
    options: { chunkedPrefixThreshold: 600 },
    capacity: 4 * SPLIT,
    passes: 2,
  },
  {
    name: "a threshold just above them",
    options: { chunkedPrefixThreshold: 1921 },
    capacity: 9 * SPLIT,
    passes: 1,
  },
  { name: "the default threshold", options: {}, capacity: CONTEXT + 2 * ROWS, passes: 1 },
];

describe("cached prefixes of prompts in one step", () => {
  let one: Awaited<ReturnType<typeof run>>;

  beforeAll(async () => {
    one = await run({ chunkedPrefix: false });
  });

  /** Like `one` to the bit, in so many passes over a workspace of so many entries. */
  async function expectSame(options: Partial<EngineOptions>, capacity: number, passes: number) {
    const { bits, launches, memoryBudget } = await run(options);
    expect(memoryBudget.prefillCapacity).toBe(capacity);
    expect(memoryBudget.workspaceBytes).toBe(capacity * ENTRY_BYTES);
    expect(launches - one.launches).toBe((passes - 1) * PASS_LAUNCHES);
    expect(bits).toEqual(one.bits);
  }

  test("are expanded in one piece when they are not to be chunked", () => {
    expect(one.bits).toHaveLength(PROMPTS.reduce((sum, [, fresh]) => sum + fresh, 0));
    // The context, and twice the rows of a step.
    expect(one.memoryBudget.prefillCapacity).toBe(CONTEXT + 2 * ROWS);
    expect(one.memoryBudget.workspaceBytes).toBe((CONTEXT + 2 * ROWS) * ENTRY_BYTES);
    expect(new Set(one.bits.map((row) => row.join())).size).toBe(one.bits.length);
  });

  test.each(smallestCaseOnly ? CASES.slice(0, 1) : CASES)(
    "have the same bits with $name",
    async ({ options, capacity, passes }) => expectSame(options, capacity, passes),
  );

  test.skipIf(smallestCaseOnly)(
    "have the same bits where memory holds one split only",
    async () => {
      const left = 12 * SPLIT * ENTRY_BYTES; // of which an eighth is less than two splits
      const deviceMemory = Math.ceil((one.memoryBudget.weightBytes + left) / 0.88);
      await expectSame({ chunkedPrefix: false, deviceMemory, maxTotalTokens: 3072 }, SPLIT, 9);
    },
  );

  test.skipIf(smallestCaseOnly)(
    "need no workspace in the form that generated tokens have",
    async () => {
      const { memoryBudget, launches } = await run({ deterministicInference: true });
      expect(memoryBudget).toMatchObject({ prefillCapacity: 0, workspaceBytes: 0 });
      expect(launches).not.toBe(one.launches);
    },
  );
});

const PREFIX = Array.from({ length: 600 }, (_, i) => 3 + ((i * 37) % 2000));

interface Answer {
  readonly tokens: readonly number[];
  readonly logprobs: readonly TokenLogprobs[];
  readonly cachedTokens: number;
}

async function answer(engine: Engine, tokens: readonly number[]): Promise<Answer> {
  const generated: number[] = [];
  const logprobs: TokenLogprobs[] = [];
  let cachedTokens = 0;
  const sampling = { temperature: 0, ignoreEos: true, maxNewTokens: 4 };
  const asked = { tokens, sampling, logprobs: { topCount: 2 } };
  for await (const chunk of engine.generate(asked)) {
    generated.push(...chunk.tokens);
    logprobs.push(...(chunk.logprobs ?? []));
    cachedTokens = chunk.cachedTokens;
  }
  return { tokens: generated, logprobs, cachedTokens };
}

/** Three prompts at once that go on from a prefix in the cache. */
async function continuations(options: Partial<EngineOptions>): Promise<Answer[]> {
  const engine = await openEngine({ maxTotalTokens: 4096, ...options });
  await answer(engine, PREFIX);
  const rests = [[5, 9, 700], [41, 1200, 8, 3, 77], [6]];
  const answers = await Promise.all(rests.map((rest) => answer(engine, [...PREFIX, ...rest])));
  await engine.close();
  return answers;
}

test.skipIf(smallestCaseOnly)(
  "answers that go on from a cached prefix are the same in chunks and in one piece",
  async () => {
    const one = await continuations({ chunkedPrefix: false });
    for (const { cachedTokens } of one) expect(cachedTokens).toBe(PREFIX.length);
    expect(await continuations({ chunkedPrefixThreshold: 0 })).toEqual(one);
  },
);
