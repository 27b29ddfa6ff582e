import { describe, expect, test } from "vitest";
import { quantizeGroup } from "../../../kernels/linear/upload/quantize_reference.ts";
import { randomDeepseek } from "../../support/checkpoints/random_deepseek.ts";
import { configOf, type RandomGqa, randomGqa } from "../../support/checkpoints/random_gqa.ts";
import type { TensorInput } from "../../support/checkpoints/write_checkpoint.ts";
import { fullTest, seeded, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { ModelSession } from "../../support/engines/model_session.ts";
import { largestDifference, medianDifference } from "../../support/reference/log_probabilities.ts";
import { ReferenceDeepseek } from "../../support/reference/reference_deepseek.ts";
import { ReferenceGqa } from "../../support/reference/reference_gqa.ts";
import type { ReferenceTensor } from "../../support/reference/reference_weights.ts";

interface Target {
  readonly option: string;
  readonly dtype: "int4" | "int8" | "fp8";
  readonly group: number;
  /** Largest relative error of numbers drawn evenly. */
  readonly error: number;
  /** In every run; the others in the full one. */
  readonly always?: true;
}

const TARGETS: readonly Target[] = [
  { option: "int4", dtype: "int4", group: 64, error: 0.1, always: true },
  { option: "int4-g32", dtype: "int4", group: 32, error: 0.1 },
  { option: "int4-g128", dtype: "int4", group: 128, error: 0.1 },
  { option: "int8", dtype: "int8", group: 128, error: 0.01 },
  { option: "fp8", dtype: "fp8", group: 128, error: 0.05 },
];

/** A matrix as the codes of its groups mean it. */
function meaning({ values, columns }: Matrix, { dtype, group }: Target): Float64Array {
  const out = Float64Array.from(values);
  for (let start = 0; start < out.length; start += columns) {
    for (let first = 0; first < columns; first += group) {
      const count = Math.min(group, columns - first);
      const numbers = [...out.subarray(start + first, start + first + count)];
      const padded = [...numbers, ...new Array<number>(group - count).fill(0)];
      out.set(quantizeGroup(padded, dtype).values.slice(0, count), start + first);
    }
  }
  return out;
}

interface Matrix {
  readonly values: ArrayLike<number>;
  readonly columns: number;
}

interface Quantized {
  readonly matrices: ReadonlyMap<string, ReferenceTensor>;
  /** By module, as the engine reports them. */
  readonly errors: ReadonlyMap<string, number>;
}

/**
 * Every linear but routers as its codes mean it, group by group. A tied head is quantized, the table
 * that it shares is not.
 */
function quantized(weights: ReadonlyMap<string, ReferenceTensor>, target: Target): Quantized {
  const linears = weights.has("lm_head.weight")
    ? /(_proj|lm_head)\.weight$/
    : /(_proj|embed_tokens)\.weight$/;
  const matrices = new Map<string, ReferenceTensor>();
  const errors = new Map<string, number>();
  for (const [name, tensor] of weights) {
    if (!linears.test(name)) continue;
    const values = meaning(tensor, target);
    let [error, square] = [0, 0];
    tensor.values.forEach((number, i) => {
      error += (values[i]! - number) ** 2;
      square += number ** 2;
    });
    const changed = name.includes("embed") ? "lm_head.weight" : name;
    matrices.set(changed, { ...tensor, values });
    errors.set(name.slice(0, -".weight".length), Math.sqrt(error / square));
  }
  return { matrices, errors };
}

const MODELS: readonly (RandomGqa & { readonly name: string })[] = [
  { name: "Qwen3", family: "qwen3", config: { hidden_size: 76, intermediate_size: 150 } },
  { name: "Qwen3-MoE, F16", family: "qwen3Moe", storage: { kind: "F16" } },
  { name: "Qwen2, F32", family: "qwen2", storage: { kind: "F32" } },
  { name: "a tied Llama", config: { tie_word_embeddings: true } },
];

const CASES = MODELS.flatMap((model, m) =>
  TARGETS.filter(({ always }) => (m === 0 ? always || fullTest : fullTest)).map((target) => ({
    title: `${model.name} to ${target.option}`,
    model,
    target,
  })),
);

describe.skipIf(smallestCaseOnly)("weights quantized while they are uploaded", () => {
  test.each(CASES)("$title: the answers of the codes, and how far they are off", async (one) => {
    const { model, target } = one;
    const source = randomGqa(model);
    const random = seeded(3);
    const { vocab_size: size } = configOf(model);
    const tokens = Array.from({ length: 24 }, () => Math.floor(random() * size));
    const session = await ModelSession.open(source, {
      quantization: target.option,
      cacheDtype: "f32",
      maxTotalTokens: 1024,
    });
    const sequence = session.sequence(tokens.slice(0, -2));
    const logits = await session.prefill(sequence, 9);
    for (const token of tokens.slice(-2)) {
      sequence.tokens.push(token);
      logits.push(...(await session.decode([sequence])));
    }
    const reported = session.loaded.quantizationErrors;
    session.close();

    const reference = await ReferenceGqa.open(source);
    const { matrices, errors } = quantized(reference.weights, target);
    const want = reference.with({}, matrices).logProbabilities(tokens);
    expect(largestDifference(logits, want)).toBeLessThan(5e-5);
    // The numbers of the checkpoint would give another answer.
    expect(medianDifference(logits, reference.logProbabilities(tokens))).toBeGreaterThan(1e-4);

    const names = reported.map(({ name }) => name);
    expect(names.toSorted()).toEqual([...errors.keys()].toSorted());
    for (const { name, relativeError } of reported) {
      expect(relativeError, name).toBeLessThan(target.error);
      expect(Math.abs(relativeError / errors.get(name)! - 1), name).toBeLessThan(1e-4);
    }
  });

  test("DeepSeek's latent up-projection and its routers stay as they are", async () => {
    const target = TARGETS[3]!;
    const isQuantized = (name: string) =>
      /(_proj|_mqa|lm_head)\.weight$/.test(name) && !name.includes("kv_b_proj");
    const names: string[] = [];
    const rounded = (tensors: TensorInput[]) =>
      tensors.map((tensor) => {
        if (!isQuantized(tensor.name)) return tensor;
        names.push(tensor.name.slice(0, -".weight".length));
        return { ...tensor, values: meaning({ ...tensor, columns: tensor.shape[1]! }, target) };
      });
    const session = await ModelSession.open(randomDeepseek({ dtype: "F32" }), {
      quantization: target.option,
      cacheDtype: "f32",
      maxTotalTokens: 256,
    });
    const tokens = [5, 99, 0, 263, 17, 17, 40, 8, 200, 131];
    const logits = await session.prefill(session.sequence(tokens));
    const reported = session.loaded.quantizationErrors.map(({ name }) => name);
    session.close();
    const reference = await ReferenceDeepseek.open(randomDeepseek({ dtype: "F32", edit: rounded }));
    expect(largestDifference(logits, reference.logProbabilities(tokens))).toBeLessThan(5e-5);
    expect(reported.toSorted()).toEqual(names.toSorted());
  });

  test("a bf16 model and its int4 form take the bytes they say", async () => {
    const source = randomGqa({ family: "qwen3Moe" });
    const [plain, packed] = await Promise.all(
      [undefined, "int4-g128"].map(async (quantization) => {
        const session = await ModelSession.open(source, {
          maxTotalTokens: 64,
          ...(quantization && { quantization }),
        });
        const { memoryBudget, quantizationErrors } = session.loaded;
        session.close();
        return { bytes: memoryBudget.weightBytes, matrices: quantizationErrors.length };
      }),
    );
    expect(plain!.matrices).toBe(0);
    // Two layers of four projections and eleven experts of three, and the head.
    expect(packed!.matrices).toBe(2 * (4 + 11 * 3) + 1);
    expect(packed!.bytes).toBeLessThan(plain!.bytes / 2);
  });
});
