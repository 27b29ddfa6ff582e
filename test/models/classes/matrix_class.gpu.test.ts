/**
 * Models whose prompts run in numeric class mma128, on devices whose subgroup matrices are emulated.
 */

import { describe, expect, test } from "vitest";
import { MATRIX_CONFIGS } from "../../../kernels/linear/checks/check_matrix.ts";
import type { MatrixConfig } from "../../../kernels/linear/matrix/matrix_tiles.ts";
import { matrixKernels } from "../../../kernels/matrix_self_test.ts";
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { loadModel } from "../../../src/engine/load/load.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { PLAIN_TUNING } from "../../../src/gpu/tuning.ts";
import { randomDeepseek } from "../../support/checkpoints/random_deepseek.ts";
import { randomGqa } from "../../support/checkpoints/random_gqa.ts";
import { fullTest, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { answerTokens, expectNearNoise } from "../../support/engines/model_answers.ts";
import { ModelSession, type Rows } from "../../support/engines/model_session.ts";
import { openEmulatedMatrices } from "../../support/reference/emulated_matrices.ts";
import { medianDifference } from "../../support/reference/log_probabilities.ts";
import { ReferenceDeepseek } from "../../support/reference/reference_deepseek.ts";
import { ReferenceGqa } from "../../support/reference/reference_gqa.ts";

const HALF = MATRIX_CONFIGS["f16 16x16x16"];
const SINGLE = MATRIX_CONFIGS["f32 8x8x8"];
const TOKENS = Array.from({ length: 45 }, (_, i) => (i * 37 + 5) % 200);
/** Generated rows leave their norms' scale to who multiplies them, and prompt rows do not. */
const tuning = { ...PLAIN_TUNING, foldsNorms: true };

/** Groups hold 32 columns. */
const PACKED = {
  ...{ hidden_size: 96, head_dim: 32, num_attention_heads: 3, num_key_value_heads: 1 },
  moe_intermediate_size: 64,
};

const qwen = {
  name: "qwen3Moe in int4",
  source: () =>
    randomGqa({ family: "qwen3Moe", storage: { kind: "AWQ", group: 32 }, config: PACKED }),
  open: (source: WeightSource) => ReferenceGqa.open(source),
};
const deepseek = {
  name: "DeepSeek",
  source: () => randomDeepseek({}),
  open: (source: WeightSource) => ReferenceDeepseek.open(source),
};
const CASES = [qwen, deepseek];

const opened = new Map<MatrixConfig, ReturnType<typeof openEmulatedMatrices>>();

/** The device that tests of a configuration share. */
function deviceFor(config: MatrixConfig) {
  const emulated = opened.get(config) ?? openEmulatedMatrices([config]);
  opened.set(config, emulated);
  return emulated;
}

async function optionsFor(config: MatrixConfig) {
  const { device } = await deviceFor(config);
  return { device, numericClass: "mma128", matrixKernels, tuning } as const;
}

/** The slow driver takes a minute to compile what these models need. */
describe.skipIf(smallestCaseOnly)("numeric class mma128, emulated", () => {
  test.each(CASES)(
    "$name with f16 operands: near the reference, and the same bits in chunks of other sizes",
    async ({ source, open }) => {
      const options = await optionsFor(HALF);
      const { shaders } = await deviceFor(HALF);
      const before = shaders();
      const wanted = (await open(source())).logProbabilities(TOKENS);
      const answer = (chunk: number) =>
        answerTokens(source(), TOKENS, { chunk, decode: 3, options });
      const logits = await answer(42);
      expect(shaders()).toBeGreaterThan(before);
      const difference = medianDifference(logits, wanted);
      expect(difference).toBeLessThan(1e-3);
      // More than f32 would: operands are rounded.
      expect(difference).toBeGreaterThan(1e-5);
      for (const chunk of fullTest ? [1, 7, 20] : [1, 20])
        expect(await answer(chunk)).toEqual(logits);
    },
  );

  test("experts in f32, which f16 operands do not multiply: the same bits in chunks of other sizes", async () => {
    const source = () => randomGqa({ family: "qwen3Moe", storage: { kind: "F32" } });
    const options = await optionsFor(HALF);
    const answer = (chunk: number) => answerTokens(source(), TOKENS, { chunk, decode: 3, options });
    expect(await answer(1)).toEqual(await answer(42));
  });

  test("with f32 operands as near as f32 allows", async () => {
    const { source, open } = deepseek;
    const options = await optionsFor(SINGLE);
    const logits = await answerTokens(source(), TOKENS, { chunk: 20, decode: 3, options });
    expectNearNoise(logits, await open(source()), TOKENS);
  });

  test.each(CASES)("$name beside others: the same bits", async ({ source }) => {
    const options = { ...(await optionsFor(HALF)), maxTotalTokens: 1024, maxRowsPerStep: 128 };
    const session = await ModelSession.open(source(), options);
    const alone = session.sequence(TOKENS);
    const wanted = await session.prefill(alone);
    alone.tokens.push(7);
    wanted.push(...(await session.decode([alone])));

    const twin = session.sequence(TOKENS.slice(0, 3));
    await session.prefill(twin);
    const generatedAlone: Float32Array[] = [];
    for (const token of [12, 13, 14]) {
      twin.tokens.push(token);
      generatedAlone.push(...(await session.decode([twin])));
    }

    const others = [3, 9, 21].map((count, i) => session.sequence(TOKENS.slice(0, count), i));
    for (const other of others) await session.prefill(other);
    const sequence = session.sequence(TOKENS, 1);
    const logits: Float32Array[] = [];
    const generated: Float32Array[] = [];
    // The prompt comes in beside one generated row, or more, or another prompt.
    for (const [step, count] of [1, 19, 5, 20].entries()) {
      const generating = others.slice(0, step);
      for (const other of generating) other.tokens.push(11 + step);
      const late = session.sequence(TOKENS.slice(step, step + 4));
      const parts: Rows[] = [
        ...generating.map((other) => ({ sequence: other, phase: "decode", count: 1 }) as const),
        { sequence: late, phase: "prefill", count: 4 },
        { sequence, phase: "prefill", count },
      ];
      const rows = await session.run(parts);
      logits.push(...rows.slice(-count));
      if (step > 0) generated.push(rows[0]!);
      session.release(late);
    }
    sequence.tokens.push(7);
    others[0]!.tokens.push(13);
    logits.push((await session.decode([others[0]!, sequence]))[1]!);
    expect(logits).toEqual(wanted);
    expect(generated).toEqual(generatedAlone);
    session.close();
  });

  test.each(CASES)(
    "$name with all rows in it: tokens have one class, generated or given",
    async ({ source, open }) => {
      const options = { ...(await optionsFor(HALF)), deterministicInference: true };
      const answer = (chunk: number, decode: number) =>
        answerTokens(source(), TOKENS, { chunk, decode, options });
      const logits = await answer(20, 3);
      const wanted = (await open(source())).logProbabilities(TOKENS);
      expect(medianDifference(logits, wanted)).toBeLessThan(1e-3);
      expect(await answer(42, 1)).toEqual(logits);
    },
  );

  test("tells of its classes, and keeps the promise of batch invariance", async () => {
    const load = async (deterministicInference: boolean) => {
      const options = { maxTotalTokens: 1024, ...(await optionsFor(HALF)) };
      const checkpoint = await Checkpoint.open(deepseek.source());
      const loaded = await loadModel(checkpoint, { ...options, deterministicInference });
      loaded.destroy();
      expect(loaded.figures.batchInvariant).toBe(true);
      return loaded.figures.numericClasses;
    };
    expect(await load(false)).toEqual({ prefill: "mma128", decode: "fma128" });
    expect(await load(true)).toEqual({ prefill: "mma128", decode: "mma128" });
  });
});

test.each(["wrong numbers", "no such function"] as const)(
  "products with a fault are not used, and other ones are: %s",
  async (fault) => {
    const small = MATRIX_CONFIGS["f16 8x8x8"];
    const load = async (
      isFaulty: (config: MatrixConfig) => boolean,
      numericClass: "mma128" | "auto" = "mma128",
    ) => {
      const faultOf = (config: MatrixConfig) => (isFaulty(config) ? fault : undefined);
      const { device } = await openEmulatedMatrices([small, HALF], faultOf);
      const options = {
        device,
        maxTotalTokens: 1024,
        numericClass,
        matrixKernels,
      } as const;
      const checkpoint = await Checkpoint.open(randomGqa({ family: "qwen3" }));
      const { destroy, figures } = await loadModel(checkpoint, options);
      destroy();
      return figures.numericClasses.prefill;
    };
    expect(await load(({ m }) => m === 16)).toBe("mma128");
    await expect(load(() => true)).rejects.toThrow(
      "numeric class mma128: this adapter does not have subgroup matrices",
    );
    expect(await load(() => true, "auto")).toBe("fma128");
  },
);

test("prompts take matrices that were found right by themselves, where vectors are free to differ", async () => {
  const { device } = await openEmulatedMatrices([HALF]);
  const load = async (options: Partial<LoadOptions>) => {
    const checkpoint = await Checkpoint.open(randomGqa({ family: "qwen3" }));
    const loaded = await loadModel(checkpoint, { device, maxTotalTokens: 1024, ...options });
    loaded.destroy();
    return { ...loaded.figures.numericClasses, promptsDiffer: loaded.promptsDiffer };
  };
  const byVectors = { prefill: "fma128", decode: "fma128", promptsDiffer: false };
  expect(await load({ matrixKernels })).toEqual({
    ...{ prefill: "mma128", decode: "fma128", promptsDiffer: true },
  });
  expect(await load({})).toEqual(byVectors);
  expect(await load({ matrixKernels, deterministicInference: true })).toEqual(byVectors);
  expect(await load({ matrixKernels, numericClass: "fma128" })).toEqual(byVectors);
});
