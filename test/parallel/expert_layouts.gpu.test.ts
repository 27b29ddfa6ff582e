import { join } from "node:path";
import { describe, expect, test } from "vitest";
import type { ExpertOptions } from "../../src/parallel/experts/expert_options.ts";
import { folderSource, SHARED_MODELS } from "../support/checkpoints/folder_source.ts";
import { randomDeepseek } from "../support/checkpoints/random_deepseek.ts";
import { type RandomGqa, randomGqa } from "../support/checkpoints/random_gqa.ts";
import { fullTest, smallestCaseOnly } from "../support/devices/gpu.ts";
import { answersOfOne, closeRanks, expectAlike } from "../support/engines/rank_answers.ts";

const DEEPSEEK = {
  hidden_size: 64,
  moe_intermediate_size: 128,
  n_routed_experts: 8,
  n_shared_experts: 1,
  num_hidden_layers: 3,
  vocab_size: 264,
};
const GQA = { hidden_size: 64, intermediate_size: 64, num_attention_heads: 4, vocab_size: 264 };

/** A copy of each of the last experts, in slots that no rank would have them in anyway. */
const PLACED = [7, 6, 5, 4, 3, 2, 1, 0, 7, 6, 5, 4];
const MAP = { physical_to_logical_map: [PLACED, PLACED, [...PLACED].reverse()] };
/** Of a layer without experts nothing is counted. */
const COUNTS = {
  logical_count: [
    [0, 0, 0, 0, 0, 0, 0, 0],
    [90, 1, 1, 1, 1, 1, 1, 1],
    [1, 1, 1, 40, 1, 1, 40, 1],
  ],
};

/** Layouts of eight experts: ranks, and what options say. */
const LAYOUTS: readonly (readonly [number, ExpertOptions])[] = [
  [1, { redundant: 4 }],
  [2, { parallelSize: 2 }],
  [2, { redundant: 4, dispatch: "dynamic" }],
  [2, { redundant: 4, location: MAP, dispatch: "static" }],
  [4, { redundant: 4, location: COUNTS, parallelSize: 4 }],
  [2, { redundant: 4, location: MAP, allToAll: "normal" }],
  [4, { redundant: 4, location: COUNTS, allToAll: "auto", dispatch: "dynamic" }],
  [4, { allToAll: "low_latency" }],
  // Twelve slots in two parts, of which eight ranks have one each four times.
  [8, { redundant: 4, parallelSize: 2, location: COUNTS, dispatch: "dynamic" }],
];

describe.skipIf(smallestCaseOnly)(
  "experts that lie otherwise on ranks give the bits of one",
  () => {
    const layouts = fullTest ? LAYOUTS : LAYOUTS.filter((_, i) => [0, 3, 5, 6, 7].includes(i));

    test.each(layouts)("DeepSeek in FP8, %i ranks, %j", async (size, experts) => {
      const source = randomDeepseek({ config: DEEPSEEK, dtype: "FP8" });
      const want = await answersOfOne(source);
      const ranks = await expectAlike(source, want, { size, experts });
      // The plan of the memory knows the copies.
      const { weightBytes } = ranks[0]!.session.loaded.memoryBudget;
      if (size === 1) expect(weightBytes).toBeGreaterThan(1.2 * want.weightBytes);
      closeRanks(ranks);
    });

    test("made-up choices are the same on all ranks, and not the router's", async () => {
      const source = randomDeepseek({ config: DEEPSEEK });
      const fake = { dispatch: "fake" } as const;
      const [want, real] = [
        await answersOfOne(source, { experts: fake }),
        await answersOfOne(source),
      ];
      expect(want.bits[0]).not.toEqual(real.bits[0]);
      const experts = { ...fake, redundant: 4, location: MAP };
      closeRanks(await expectAlike(source, want, { size: 2, experts }));
    });

    const others: readonly (readonly [string, RandomGqa])[] = [
      ["gpt-oss", { family: "gptOss", config: { ...GQA, num_local_experts: 8 } }],
      [
        "Qwen3 with experts in FP8",
        {
          family: "qwen3Moe",
          config: { ...GQA, num_experts: 8, num_experts_per_tok: 3 },
          storage: { kind: "FP8", per: "block" },
        },
      ],
      [
        "Qwen3 with experts in GPTQ",
        {
          family: "qwen3Moe",
          config: { ...GQA, num_experts: 8, num_experts_per_tok: 3, moe_intermediate_size: 64 },
          storage: { kind: "GPTQ", group: 32 },
        },
      ],
    ];

    test.runIf(fullTest).each(others)("%s", async (_, model) => {
      const source = randomGqa(model);
      const want = await answersOfOne(source);
      const experts: ExpertOptions = {
        redundant: 4,
        location: { physical_to_logical_map: [PLACED, PLACED] },
        dispatch: "dynamic",
      };
      closeRanks(await expectAlike(source, want, { size: 2, experts }));
    });

    test.runIf(fullTest)(
      "weights that are quantized while they are uploaded, for copies too",
      async () => {
        const source = randomDeepseek({ config: DEEPSEEK });
        const quantization = "int4";
        const want = await answersOfOne(source, { quantization });
        const experts = { redundant: 4, location: MAP };
        closeRanks(await expectAlike(source, want, { size: 2, experts, quantization }));
      },
    );
  },
);

describe.skipIf(smallestCaseOnly || SHARED_MODELS === undefined)(
  "experts of shared checkpoints (needs ../shared/data/models)",
  () => {
    const all = [
      "tiny-deepseek-v3-bf16",
      "tiny-deepseek-v3-awq",
      "mini-deepseek-v2-lite",
      "mini-deepseek-v3-fp8",
      "mini-qwen3-moe",
    ];
    test.runIf(fullTest).each(all)("%s", async (name) => {
      const source = folderSource(join(SHARED_MODELS!, name));
      const experts = { redundant: 4, dispatch: "dynamic" } as const;
      closeRanks(await expectAlike(source, await answersOfOne(source), { size: 2, experts }));
    });
  },
);
