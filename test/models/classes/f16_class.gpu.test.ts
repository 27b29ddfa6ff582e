/** Models whose linears multiply in f16 (numeric class f16), where the adapter can. */
import { describe, expect, test } from "vitest";
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { loadModel } from "../../../src/engine/load/load.ts";
import { randomDeepseek } from "../../support/checkpoints/random_deepseek.ts";
import { randomGqa } from "../../support/checkpoints/random_gqa.ts";
import { device, fullTest } from "../../support/devices/gpu.ts";
import { answerTokens } from "../../support/engines/model_answers.ts";
import { medianDifference } from "../../support/reference/log_probabilities.ts";
import { ReferenceDeepseek } from "../../support/reference/reference_deepseek.ts";
import { ReferenceGqa } from "../../support/reference/reference_gqa.ts";

const hasHalves = device.features.has("shader-f16");
const TOKENS = Array.from({ length: 33 }, (_, i) => (i * 37 + 5) % 200);

/** Groups hold 32 columns. */
const PACKED = {
  ...{ hidden_size: 96, head_dim: 32, num_attention_heads: 3, num_key_value_heads: 1 },
  moe_intermediate_size: 64,
};

const CASES = [
  {
    name: "qwen3Moe in int4",
    source: () =>
      randomGqa({ family: "qwen3Moe", storage: { kind: "AWQ", group: 32 }, config: PACKED }),
    open: (source: WeightSource) => ReferenceGqa.open(source),
  },
  {
    name: "DeepSeek",
    source: () => randomDeepseek({}),
    open: (source: WeightSource) => ReferenceDeepseek.open(source),
  },
];

function answer(source: WeightSource, chunk: number, numericClass: "f16" | "fma128") {
  return answerTokens(source, TOKENS, { chunk, decode: 3, options: { numericClass } });
}

describe.runIf(hasHalves)("numeric class f16", () => {
  test.each(fullTest ? CASES : CASES.slice(1))(
    "$name: near the reference, and the same bits in chunks of other sizes",
    async ({ source, open }) => {
      const wanted = (await open(source())).logProbabilities(TOKENS);
      const logits = await answer(source(), 30, "f16");
      const difference = medianDifference(logits, wanted);
      const inSingle = medianDifference(await answer(source(), 30, "fma128"), wanted);
      expect(difference).toBeLessThan(5e-3);
      expect(difference).toBeGreaterThan(10 * inSingle);
      for (const chunk of fullTest ? [1, 7] : [7]) {
        expect(await answer(source(), chunk, "f16")).toEqual(logits);
      }
    },
  );

  test("is told of, and keeps the promise of batch invariance", async () => {
    const options = { device, maxTotalTokens: 1024, numericClass: "f16" } as const;
    const checkpoint = await Checkpoint.open(randomGqa({ family: "qwen3Moe" }));
    const { figures, destroy } = await loadModel(checkpoint, options);
    destroy();
    expect(figures.numericClasses).toEqual({ prefill: "f16", decode: "f16" });
    expect(figures.batchInvariant).toBe(true);
  });
});

test.skipIf(hasHalves)("numeric class f16 is refused where there is no f16", async () => {
  const checkpoint = await Checkpoint.open(randomGqa({ family: "qwen3" }));
  await expect(
    loadModel(checkpoint, { device, maxTotalTokens: 1024, numericClass: "f16" }),
  ).rejects.toThrow("numeric class f16: this adapter does not have the feature shader-f16");
});
