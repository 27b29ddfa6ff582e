/**
 * Engines whose ranks are processes that MPI joins answer, bit for bit, what one rank does: however they
 * come to it, over shared memory, over TCP and between networks.
 */
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { Engine } from "../../src/engine/engine.ts";
import type { GenerationRequest } from "../../src/generation.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource, SHARED_MODELS } from "../support/checkpoints/folder_source.ts";
import { device, fullTest, smallestCaseOnly } from "../support/devices/gpu.ts";
import { answersOf, type EngineAnswers, type EngineTask } from "../support/mpi/engine_answers.ts";
import {
  BASE,
  DRAFTS,
  GROUP_LAYOUTS,
  GROUP_VARIANTS,
  isDrafted,
  VARIANTS,
} from "../support/mpi/engine_variants.ts";
import { removeNetworks } from "../support/mpi/networks.ts";
import { lackOfMpi, Programs, tellLack } from "../support/mpi/processes.ts";
import { engineOverMpi, MPI_WAYS, type MpiWay } from "../support/mpi/ways.ts";

const lack = lackOfMpi();
tellLack(lack);
const isLeftOut = lack !== undefined || smallestCaseOnly;

const folder = mkdtempSync(join(tmpdir(), "wisp-over-mpi-"));
let programs: Programs;
beforeAll(async () => {
  if (!isLeftOut) programs = await Programs.build();
});
afterAll(() => {
  programs?.remove();
  removeNetworks();
  rmSync(folder, { recursive: true });
});

const overMpi = (task: EngineTask, size: number, way: MpiWay) =>
  engineOverMpi(programs, { task, size, way });

/** On one rank, or on several of this process. */
async function inThisProcess({ model, options, ...task }: EngineTask): Promise<EngineAnswers> {
  const given = { device, triesInvariance: false, ...options };
  return answersOf(await Engine.load(folderSource(model), given), task);
}

const LENGTH = fullTest ? 24 : 8;
const tokens = (seed: number, length: number) =>
  Array.from({ length }, (_, i) => 3 + ((seed * 97 + i * i * 31) % 500));
const SCHEMA = JSON.stringify({
  type: "object",
  properties: { name: { type: "string", maxLength: 12 }, age: { type: "integer" } },
  required: ["name", "age"],
});

/** All that a row can be drawn by, and prompts that share prefixes. */
function requests(): readonly GenerationRequest[] {
  const plain = { maxNewTokens: LENGTH, ignoreEos: true };
  return [
    { tokens: tokens(1, 90), sampling: { ...plain, temperature: 0 }, logprobs: { topCount: 2 } },
    {
      tokens: [...tokens(1, 80), ...tokens(2, 13)],
      sampling: { ...plain, temperature: 0.9, topP: 0.95, topK: 40, seed: 5 },
      logprobs: { promptStart: 70, topCount: 1 },
      storePrefix: false,
    },
    {
      tokens: tokens(3, 21),
      sampling: { ...plain, temperature: 1, seed: 6, minP: 0.02, repetitionPenalty: 1.3 },
      logprobs: { topCount: 1 },
    },
    {
      tokens: tokens(4, 9),
      sampling: { maxNewTokens: 2 * LENGTH, temperature: 0.7, seed: 7, jsonSchema: SCHEMA },
      logprobs: { topCount: 1 },
    },
  ];
}

/** In a round of their own, so that those above crowd the cache as they are. */
function others(): readonly GenerationRequest[] {
  const plain = { maxNewTokens: LENGTH, ignoreEos: true };
  return [
    {
      tokens: tokens(5, 33),
      sampling: {
        ...{ ...plain, temperature: 0.8, seed: 8, frequencyPenalty: 0.6, presencePenalty: -0.3 },
        ...{ logitBias: { 9: 2 }, minNewTokens: 3 },
      },
      logprobs: { topCount: 2, tokenIds: [7, 9] },
    },
    {
      tokens: tokens(6, 14),
      sampling: { maxNewTokens: LENGTH, temperature: 0, regex: "[0-9]{2}( [a-z]{2,4})+" },
      logprobs: { topCount: 1 },
    },
  ];
}

describe.skipIf(isLeftOut)("the embedded model", () => {
  let want: EngineAnswers;
  const task = { model: EMBEDDED_MODEL, rounds: [requests(), requests(), others()] };
  beforeAll(async () => {
    if (isLeftOut) return;
    const options = { ...BASE, prefixCache: false, overlapSchedule: false };
    want = await inThisProcess({ ...task, options });
    expect(want.answers.map((one) => one.tokens.length)).not.toContain(0);
  });

  const layouts = MPI_WAYS.flatMap((way) =>
    (fullTest ? [2, 4] : way.shortSizes).map((size) => ({ way, size, name: way.name })),
  );
  describe.each(layouts)("on $size ranks, $name", ({ way, size }) => {
    const variants = VARIANTS.filter(({ shortSize }) => fullTest || shortSize === size);
    test.for(variants)("$name", async ({ options, proof, name: _, ...rest }, { skip }) => {
      const without = await way.lack?.();
      skip(without !== undefined, without);
      const given = { ...task, ...rest, options: { ...BASE, ...options } };
      const got = await overMpi(given, size, way);
      expect(got.answers).toEqual(want.answers);
      proof(got.figures);
    });
  });

  describe.each(GROUP_LAYOUTS.filter(({ isShort }) => isShort || fullTest))(
    "in $groups attention groups of $size ranks",
    ({ way: number, size, groups }) => {
      const way = MPI_WAYS[number]!;
      const variants = GROUP_VARIANTS.filter(({ shortSize, mostGroups = groups }) => {
        return groups <= mostGroups && (shortSize === size || fullTest);
      });
      test.for(variants)(`$name, ${way.name}`, async (variant, { skip }) => {
        const { options, proof, name: _, ...rest } = variant;
        const without = await way.lack?.();
        skip(without !== undefined, without);
        const given = { ...task, ...rest, groups, options: { ...BASE, ...options } };
        const got = await overMpi(given, size, way);
        expect(got.answers).toEqual(want.answers);
        // Each group tells of every loss.
        proof({ ...got.figures, recoveries: got.figures.recoveries / groups });
      });
    },
  );

  test.runIf(fullTest).each([1, 8])("on %i ranks of one machine, drafts", async (size) => {
    const got = await overMpi({ ...task, options: { ...BASE, ...DRAFTS } }, size, MPI_WAYS[0]!);
    expect(got.answers).toEqual(want.answers);
    isDrafted(got.figures);
  });

  /** What changes answers, so that each has those of one rank to be compared with. */
  const forms: readonly (readonly [string, EngineTask["options"]])[] = [
    ["a cache in FP8", { cacheDtype: "fp8_e4m3" }],
    ["deterministic inference, with drafts", { deterministicInference: true, ...DRAFTS }],
  ];
  test.runIf(fullTest).each(forms)("%s, on two ranks and on four", async (_, form) => {
    const given = { ...task, options: { ...BASE, ...form } };
    const one = await inThisProcess(given);
    expect((await overMpi(given, 2, MPI_WAYS[0]!)).answers).toEqual(one.answers);
    expect((await overMpi(given, 4, MPI_WAYS[1]!)).answers).toEqual(one.answers);
  });

  test.runIf(fullTest)("stored prefixes come back", async () => {
    const prefixes = join(folder, "prefixes");
    const rounds = task.rounds.map((round) => round.map((one) => ({ ...one, storePrefix: true })));
    const given = { ...task, rounds, prefixes, options: BASE };
    const first = await overMpi(given, 2, MPI_WAYS[0]!);
    const second = await overMpi(given, 2, MPI_WAYS[1]!);
    expect([first.answers, second.answers]).toEqual([want.answers, want.answers]);
    expect([first.figures.restoredTokens, second.figures.restoredTokens > 0]).toEqual([0, true]);
  });
});

test.skipIf(isLeftOut || SHARED_MODELS === undefined || !fullTest)(
  "weights in int4, on two ranks and on four",
  async () => {
    const model = join(SHARED_MODELS!, "mini-qwen3-moe");
    const options = { ...BASE, quantization: "int4" } as const;
    // Its vocabulary is smaller.
    const asked = requests()
      .slice(0, 3)
      .map((one) => ({ ...one, tokens: one.tokens!.map((token) => token % 256) }));
    const given = { model, options, rounds: [asked] };
    const one = await inThisProcess(given);
    const plain = await inThisProcess({ ...given, options: BASE });
    expect(one.answers).not.toEqual(plain.answers);
    expect((await overMpi(given, 2, MPI_WAYS[0]!)).answers).toEqual(one.answers);
    expect((await overMpi(given, 4, MPI_WAYS[1]!)).answers).toEqual(one.answers);
  },
);

interface Golden {
  readonly cases: readonly {
    readonly input_ids: readonly number[];
    readonly greedy: { readonly ids: readonly number[]; readonly margin: readonly number[] };
  }[];
}
/** Below this margin between the two best logits a greedy token may differ. */
const SMALL_MARGIN = 0.05;
const CHECKPOINTS = [
  ...["tiny-deepseek-v3-bf16", "tiny-deepseek-v3-fp8", "tiny-deepseek-v3-awq"],
  ...["tiny-deepseek-v3-int8", "mini-deepseek-v2-lite", "mini-deepseek-v3-fp8", "mini-llama"],
  ...["mini-llama-awq", "mini-llama-int8", "mini-qwen3", "mini-qwen3-moe"],
];

/**
 * Of the forms that a checkpoint has goldens of: quantized activations (wa) are near their own and an f32
 * cache (f32kv) is near the same tokens, which golden.gpu.test.ts looks at on one rank.
 */
describe.skipIf(isLeftOut || SHARED_MODELS === undefined)("golden tokens", () => {
  const short = ["mini-qwen3-moe", "tiny-deepseek-v3-fp8"];
  /** Each with the ways that ranks of processes are tried on, by their numbers. */
  const layouts: readonly (readonly [size: number, way: number])[] = fullTest
    ? [2, 4].flatMap((size) => MPI_WAYS.map((_, way) => [size, way] as const))
    : [[2, 1]];
  test.each(fullTest ? CHECKPOINTS : short)("of %s.w (wa, f32kv: one rank)", async (name) => {
    const file = join(SHARED_MODELS!, "../golden", `${name}.w.json`);
    const cases = (JSON.parse(readFileSync(file, "utf8")) as Golden).cases.slice(0, 4);
    const sampling = { temperature: 0, maxNewTokens: cases[0]!.greedy.ids.length, ignoreEos: true };
    const logprobs = { topCount: 1, promptStart: 0 };
    const rounds = [cases.map(({ input_ids }) => ({ tokens: input_ids, sampling, logprobs }))];
    const options = { quantizeActivations: false, maxTotalTokens: 2048, pageSize: 16 };
    const task = { model: join(SHARED_MODELS!, name), options, rounds };
    const want = await inThisProcess(task);
    for (const [i, { greedy }] of cases.entries()) {
      const close = greedy.margin.findIndex((margin) => margin < SMALL_MARGIN);
      const sure = close < 0 ? greedy.ids.length : close;
      expect(want.answers[i]!.tokens.slice(0, sure)).toEqual(greedy.ids.slice(0, sure));
    }
    for (const tensorParallelSize of fullTest ? [2, 4] : []) {
      const given = { ...task, options: { ...options, tensorParallelSize } };
      expect((await inThisProcess(given)).answers).toEqual(want.answers);
    }
    for (const [size, number] of layouts) {
      const way = MPI_WAYS[number]!;
      const without = await way.lack?.();
      if (without !== undefined) {
        console.log(`Left out: ${without}`);
        continue;
      }
      const got = await overMpi(task, size, way);
      expect(got.answers, `${size} ranks, ${way.name}`).toEqual(want.answers);
    }
  });
});
