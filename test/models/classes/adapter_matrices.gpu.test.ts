/**
 * Models whose prompts run by the adapter's own subgroup matrices, which a GPU may have: with
 * `WISP_SUBGROUP_MATRICES=1`.
 */
import { describe, expect, test } from "vitest";
import { matrixKernels } from "../../../kernels/matrix_self_test.ts";
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import { loadModel } from "../../../src/engine/load/load.ts";
import { SUBGROUP_MATRIX } from "../../../src/gpu/device.ts";
import { randomDeepseek } from "../../support/checkpoints/random_deepseek.ts";
import { randomGqa } from "../../support/checkpoints/random_gqa.ts";
import { device } from "../../support/devices/gpu.ts";
import { answerTokens } from "../../support/engines/model_answers.ts";
import { medianDifference } from "../../support/reference/log_probabilities.ts";
import { ReferenceDeepseek } from "../../support/reference/reference_deepseek.ts";
import { ReferenceGqa } from "../../support/reference/reference_gqa.ts";

const TOKENS = Array.from({ length: 150 }, (_, i) => (i * 37 + 5) % 200);
const options = { device, matrixKernels };

describe.skipIf(!device.features.has(SUBGROUP_MATRIX))("an adapter with subgroup matrices", () => {
  test("Qwen3 with experts: near the reference, and the same bits in chunks of other sizes", async () => {
    const source = () => randomGqa({ family: "qwen3Moe" });
    const answer = (chunk: number) => answerTokens(source(), TOKENS, { chunk, decode: 3, options });
    const logits = await answer(120);
    const wanted = (await ReferenceGqa.open(source())).logProbabilities(TOKENS);
    expect(medianDifference(logits, wanted)).toBeLessThan(1e-3);
    for (const chunk of [1, 17, 64]) expect(await answer(chunk)).toEqual(logits);
  });

  test("DeepSeek: near the reference, and the same bits in chunks of other sizes", async () => {
    const source = () => randomDeepseek({});
    const answer = (chunk: number) => answerTokens(source(), TOKENS, { chunk, decode: 3, options });
    const logits = await answer(120);
    const wanted = (await ReferenceDeepseek.open(source())).logProbabilities(TOKENS);
    expect(medianDifference(logits, wanted)).toBeLessThan(1e-3);
    for (const chunk of [1, 17, 64]) expect(await answer(chunk)).toEqual(logits);
  });

  test("prompts take them by themselves, and the promise of batch invariance holds", async () => {
    const checkpoint = await Checkpoint.open(randomDeepseek({}));
    const { destroy, figures } = await loadModel(checkpoint, { ...options, maxTotalTokens: 1024 });
    destroy();
    expect(figures.numericClasses).toEqual({ prefill: "mma128", decode: "fma128" });
    expect(figures.batchInvariant).toBe(true);
  });
});
