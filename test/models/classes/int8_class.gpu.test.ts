/** Models whose weights and activations are int8, computed in whole numbers (numeric class int8). */
import { describe, expect, test } from "vitest";
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import type { WeightSource } from "../../../src/checkpoint/source.ts";
import { loadModel } from "../../../src/engine/load/load.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import type { NumericClass } from "../../../src/models/numeric_class.ts";
import {
  type MatrixStorage,
  quantizationSection,
  randomMatrix,
} from "../../support/checkpoints/quantized_tensors.ts";
import { randomDeepseek } from "../../support/checkpoints/random_deepseek.ts";
import { randomGqa } from "../../support/checkpoints/random_gqa.ts";
import type { TensorInput } from "../../support/checkpoints/write_checkpoint.ts";
import { device, fullTest, seeded, smallestCaseOnly } from "../../support/devices/gpu.ts";
import { answerTokens } from "../../support/engines/model_answers.ts";
import { medianDifference } from "../../support/reference/log_probabilities.ts";
import { ReferenceDeepseek } from "../../support/reference/reference_deepseek.ts";
import { ReferenceGqa } from "../../support/reference/reference_gqa.ts";

interface Reference {
  with(options: object): Reference;
  logProbabilities(tokens: readonly number[]): Float64Array[];
}

interface Case {
  readonly name: string;
  readonly source: () => WeightSource;
  readonly open: (source: WeightSource) => Promise<Reference>;
}

const ROUNDED = { quantizeActivations: true } as const;
const BLOCKS: MatrixStorage = { kind: "INT8", per: "block" };
const ROWS: MatrixStorage = { kind: "INT8", per: "row" };
/** Cuts blocks of 128 in both dimensions. */
const CUT = { hidden_size: 136, intermediate_size: 150 };

/** Every projection in int8; two shared experts are cut out of one MLP. */
function deepseek(storage: MatrixStorage): WeightSource {
  const random = seeded(3);
  const convert = (tensor: TensorInput): TensorInput[] => {
    const [, name] = /^(.*_proj(?:_with_mqa)?)\.weight$/.exec(tensor.name) ?? [];
    if (name === undefined) return [tensor];
    const [rows, columns] = tensor.shape as [number, number];
    const deviation = 1 / Math.sqrt(columns);
    return randomMatrix({ name, rows, columns, storage, deviation, random });
  };
  const config = { n_shared_experts: 2, quantization_config: quantizationSection(storage) };
  return randomDeepseek({ config, edit: (tensors) => tensors.flatMap(convert) });
}

const gqa = (family: "qwen3" | "qwen3Moe", storage: MatrixStorage): Case => ({
  name: `${family}, ${storage.kind === "INT8" ? storage.per : ""}s`,
  source: () => randomGqa({ family, storage, config: CUT }),
  open: (source) => ReferenceGqa.open(source, ROUNDED),
});

const CASES: readonly Case[] = [
  gqa("qwen3", BLOCKS),
  gqa("qwen3Moe", ROWS),
  {
    name: "DeepSeek, rows",
    source: () => deepseek(ROWS),
    open: (source) => ReferenceDeepseek.open(source, ROUNDED),
  },
];

const TOKENS = Array.from({ length: 33 }, (_, i) => (i * 37 + 5) % 200);

function answer(source: WeightSource, chunk: number, options: Partial<LoadOptions> = {}) {
  const given = { ...ROUNDED, numericClass: "int8" as const, ...options };
  return answerTokens(source, TOKENS, { chunk, decode: 3, options: given });
}

async function classesOf(source: WeightSource, numericClass?: NumericClass) {
  const options = { device, maxTotalTokens: 1024, numericClass };
  const { figures, destroy } = await loadModel(await Checkpoint.open(source), options);
  destroy();
  return figures;
}

describe("numeric class int8", () => {
  const cases = smallestCaseOnly ? CASES.slice(0, 1) : CASES.slice(fullTest ? 0 : 1);
  test.each(cases)(
    "$name: near the reference, and the same bits in chunks of other sizes",
    async ({ source, open }) => {
      const reference = await open(source());
      const logits = await answer(source(), 30);
      // Few numbers lie so close to a tie that f32 rounds them to the other side.
      expect(medianDifference(logits, reference.logProbabilities(TOKENS))).toBeLessThan(1e-4);
      const unrounded = reference.with({}).logProbabilities(TOKENS);
      expect(medianDifference(logits, unrounded)).toBeGreaterThan(1e-3);
      for (const chunk of fullTest ? [1, 7] : [7]) {
        expect(await answer(source(), chunk)).toEqual(logits);
      }
      if (!fullTest) return;
      expect(await answer(source(), 30, { numericClass: "fma128" })).not.toEqual(logits);
    },
  );

  test.skipIf(smallestCaseOnly)(
    "is told of, refused where it is unknown, and keeps the promise of batch invariance",
    async () => {
      const source = CASES[1]!.source;
      const told = await classesOf(source(), "int8");
      expect(told.numericClasses).toEqual({ prefill: "int8", decode: "int8" });
      expect(told.batchInvariant).toBe(true);
      const { numericClasses } = await classesOf(source(), "fma128");
      expect(numericClasses.decode).toBe("fma128");
      // Weights that are not int8 have no other class.
      const plain = await classesOf(randomGqa({ family: "qwen3" }), "int8");
      expect(plain.numericClasses.decode).toBe("fma128");
      await expect(classesOf(source(), "int4" as NumericClass)).rejects.toThrow(
        "Cannot use numericClass int4: it must be one of auto, fma128, int8, f16, mma128",
      );
    },
  );
});
