import { describe, expect, test } from "vitest";
import { MATRIX_CONFIGS } from "../../kernels/linear/checks/check_matrix.ts";
import { matrixKernels } from "../../kernels/matrix_self_test.ts";
import { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import type { WeightSource } from "../../src/checkpoint/source.ts";
import { loadModel } from "../../src/engine/load/load.ts";
import type { LoadOptions } from "../../src/engine/load/load_options.ts";
import { GroupError, UnsupportedError } from "../../src/errors.ts";
import { localGroup } from "../../src/parallel/local.ts";
import { type RandomDeepseek, randomDeepseek } from "../support/checkpoints/random_deepseek.ts";
import { type RandomGqa, randomGqa } from "../support/checkpoints/random_gqa.ts";
import { device, smallestCaseOnly } from "../support/devices/gpu.ts";
import { ModelSession } from "../support/engines/model_session.ts";
import { openEmulatedMatrices } from "../support/reference/emulated_matrices.ts";

/** What one of `size` ranks says; the others do not come. */
async function refusal(source: WeightSource, size: number, options: Partial<LoadOptions> = {}) {
  const checkpoint = await Checkpoint.open(source);
  const [communicator] = localGroup(size);
  const error: unknown = await loadModel(checkpoint, {
    device,
    communicator: communicator!,
    ...options,
  }).catch((thrown) => thrown);
  expect(error).toBeInstanceOf(UnsupportedError);
  return (error as UnsupportedError).message;
}

const DEEPSEEK = {
  hidden_size: 32,
  intermediate_size: 256,
  kv_lora_rank: 16,
  moe_intermediate_size: 16,
  q_lora_rank: 16,
  v_head_dim: 64,
  vocab_size: 264,
};
const SMALL_GQA = { head_dim: 64, hidden_size: 32, intermediate_size: 256, vocab_size: 264 };
const LLAMA = { ...SMALL_GQA, num_attention_heads: 8, num_key_value_heads: 4 };

describe("ranks that a model cannot be shared by are refused and named", () => {
  const deepseek: [string, number, RandomDeepseek, string][] = [
    ["heads", 3, {}, "self_attn.kv_b_proj on 3 ranks: its 4 heads cannot be shared out evenly"],
    [
      "experts",
      2,
      { config: { n_routed_experts: 9, n_group: 1, topk_group: 1 } },
      "model.layers.1.mlp.experts on 2 ranks: its 9 experts cannot be shared out evenly",
    ],
    [
      "the vocabulary",
      2,
      { config: { vocab_size: 263 } },
      "lm_head on 2 ranks: its 263 rows cannot be shared out evenly",
    ],
    [
      "a dense layer",
      2,
      { config: { intermediate_size: 257 } },
      "model.layers.0.mlp.gate_proj on 2 ranks: its 257 rows cannot be shared out evenly",
    ],
    [
      "segments of attention's output",
      4,
      {},
      "model.layers.0.self_attn.o_proj on 4 ranks: 64 of its 256 columns each would cut one of " +
        "the 2 segments of blocks of 128 that they are added in",
    ],
    [
      "segments of a down projection",
      2,
      { config: { intermediate_size: 384 } },
      "model.layers.0.mlp.down_proj on 2 ranks: 192 of its 384 columns each would cut one of the " +
        "3 segments of blocks of 128 that they are added in",
    ],
    [
      "blocks of a head's rows",
      2,
      { dtype: "FP8", config: { v_head_dim: 128 } },
      "model.layers.0.self_attn.kv_b_proj on 2 ranks: 296 of its 592 rows each would cut a block " +
        "of 128x128",
    ],
  ];

  test.each(deepseek)("DeepSeek: %s", async (_, size, model, problem) => {
    const config = { ...DEEPSEEK, ...model.config };
    expect(await refusal(randomDeepseek({ ...model, config }), size)).toBe(`Cannot use ${problem}`);
  });

  const gqa: [string, number, RandomGqa, string][] = [
    [
      "heads of keys",
      8,
      {},
      "self_attn.k_proj on 8 ranks: its 4 heads of keys cannot be shared out evenly",
    ],
    [
      "blocks of a few heads",
      4,
      { storage: { kind: "FP8", per: "block" } },
      "model.layers.0.self_attn.k_proj on 4 ranks: 64 of its 256 rows each would cut a block of " +
        "128x128",
    ],
    [
      "rows that share a scale",
      2,
      { storage: { kind: "INT8", per: "row" } },
      "inputs of self_attn.o_proj and mlp.down_proj rounded by rows on 2 ranks: a rank has a part " +
        "of each row only, and rows share a scale",
    ],
    [
      "words of codes",
      2,
      { storage: { kind: "GPTQ", group: 32 }, config: { intermediate_size: 264 } },
      "model.layers.0.mlp.gate_proj on 2 ranks: 132 of its 264 rows each would cut a word of 8 codes",
    ],
  ];

  test.each(gqa)("grouped queries: %s", async (_, size, model, problem) => {
    const config = { ...LLAMA, ...model.config };
    expect(await refusal(randomGqa({ ...model, config }), size)).toBe(`Cannot use ${problem}`);
  });
});

describe("a group ends together", () => {
  const source = () => randomGqa({ config: { ...LLAMA, num_hidden_layers: 1 } });
  const open = (options: readonly Partial<LoadOptions>[]) => {
    const group = localGroup(options.length);
    return Promise.allSettled(
      options.map((own, rank) =>
        ModelSession.open(source(), {
          maxRowsPerStep: 16,
          maxTotalTokens: 64,
          ...own,
          communicator: group[rank]!,
        }),
      ),
    );
  };
  const openTwo = async () =>
    (await open([{}, {}])).map((result) => {
      if (result.status === "rejected") throw result.reason;
      return result.value;
    });
  const reasons = (results: readonly PromiseSettledResult<unknown>[]) =>
    results.map((result) => (result.status === "rejected" ? (result.reason as Error) : undefined));

  test("when ranks load with different options", async () => {
    const errors = reasons(await open([{}, { pageSize: 2 }]));
    for (const error of errors) {
      expect(error).toBeInstanceOf(GroupError);
      expect(error?.message).toBe(
        "Cannot go on with ranks that disagree about what they load: pageSize is 1 on rank 0, 2 on rank 1",
      );
    }
  });

  test("when ranks compute in different classes", async () => {
    for (const error of reasons(await open([{ numericClass: "fma128" }, {}]))) {
      expect(error?.message).toBe(
        "Cannot go on with ranks that disagree about what they load: numericClass is fma128 on rank 0, auto on rank 1",
      );
    }
  });

  test.skipIf(smallestCaseOnly)("when ranks have different matrices", async () => {
    const configs = [MATRIX_CONFIGS["f16 16x16x16"], MATRIX_CONFIGS["f16 8x8x8"]];
    const devices = await Promise.all(configs.map((config) => openEmulatedMatrices([config])));
    const opened = devices.map((own) => ({
      ...{ device: own.device, numericClass: "mma128" as const, matrixKernels },
    }));
    for (const error of reasons(await open(opened))) {
      expect(error?.message).toBe(
        "Cannot go on with ranks that disagree about what they multiply by: matrices is f16 16x16x16 on rank 0, " +
          "f16 8x8x8 on rank 1",
      );
    }
  });

  test("when one of them cannot load", async () => {
    const [waiting, failed] = reasons(await open([{}, { maxBindingSize: 1024 }]));
    expect(waiting).toBeInstanceOf(GroupError);
    expect(waiting?.message).toContain(`could not load the model: ${failed?.message}`);
  });

  test.skipIf(smallestCaseOnly)("when one of them leaves before a step", async () => {
    const [first, second] = await openTwo();
    const part = () => ({ phase: "prefill" as const, count: 2 });
    const step = first!.run([{ sequence: first!.sequence([1, 2]), ...part() }]);
    second!.close();
    await expect(step).rejects.toThrow(
      "Cannot go on without rank 1, which has left its group: its model is not loaded",
    );
    const next = first!.run([{ sequence: first!.sequence([1, 2]), ...part() }]);
    await expect(next).rejects.toBeInstanceOf(GroupError);
    first!.close();
  });

  test.skipIf(smallestCaseOnly)("when a step of one of them fails", async () => {
    const [first, second] = await openTwo();
    const step = (session: ModelSession, onTap?: () => void) =>
      session.run([{ sequence: session.sequence([1, 2]), phase: "prefill", count: 2 }], {
        ...(onTap && { onTap }),
      });
    const fail = () => {
      throw new Error("a wire came loose");
    };
    const [waiting, failed] = reasons(
      await Promise.allSettled([step(first!), step(second!, fail)]),
    );
    expect(failed?.message).toBe("a wire came loose");
    expect(waiting).toBeInstanceOf(GroupError);
    expect(waiting?.message).toBe(
      "Cannot go on without rank 1, which has left its group: its step failed: a wire came loose",
    );
    for (const session of [first!, second!]) session.close();
  });
});
