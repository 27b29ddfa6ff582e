import { describe, expect, test } from "vitest";
import { InvalidRequestError, UnsupportedError } from "../../src/errors.ts";
import { type DraftKind, requireDraftFits } from "../../src/speculation/draft_source.ts";
import {
  resolveSpeculation,
  type SpeculationOptions,
  type TargetFacts,
} from "../../src/speculation/speculation_options.ts";

const LLAMA: TargetFacts = {
  architecture: "LlamaForCausalLM",
  hasMtpLayer: false,
  prefillAttentionBackend: "auto",
  decodeAttentionBackend: "auto",
};
const DEEPSEEK: TargetFacts = {
  ...LLAMA,
  architecture: "DeepseekV3ForCausalLM",
  hasMtpLayer: true,
};

/** Options as those who write no types may give them. */
type Given = Omit<SpeculationOptions, "algorithm" | "adaptive"> & {
  readonly algorithm?: string;
  readonly adaptive?: string | undefined;
};

const resolve = (options: Given, target: TargetFacts) =>
  resolveSpeculation(options as SpeculationOptions, target);

const DRAFT = { draftModelPath: "drafts/small" };
const EAGLE = { algorithm: "EAGLE", ...DRAFT };
const NGRAM = { algorithm: "NGRAM" };

/** The three numbers, as options. */
function numbers(steps?: number, topk?: number, draftTokens?: number): Given {
  return {
    numSteps: steps,
    eagleTopk: topk,
    numDraftTokens: draftTokens,
  };
}

function shapeOf(options: Given, target = LLAMA): number[] {
  const { steps, topk, draftTokens } = resolve(options, target)!.shape;
  return [steps, topk, draftTokens];
}

function refusal(options: Given, target = LLAMA): unknown {
  try {
    return resolve(options, target);
  } catch (error) {
    return error;
  }
}

describe("algorithms", () => {
  const OWN_LAYER = { kind: "mtp layer" };
  const MODEL = { kind: "model", path: "drafts/small", revision: undefined };
  const NGRAMS = { kind: "ngrams", window: { min: 2, max: 12 } };

  test.each<[string, Given, TargetFacts, string, object]>([
    ["EAGLE", {}, DEEPSEEK, "EAGLE", OWN_LAYER],
    ["EAGLE", DRAFT, LLAMA, "EAGLE", MODEL],
    ["EAGLE", DRAFT, DEEPSEEK, "EAGLE", MODEL],
    ["NEXTN", {}, DEEPSEEK, "EAGLE", OWN_LAYER],
    ["NEXTN", DRAFT, DEEPSEEK, "EAGLE", MODEL],
    ["EAGLE3", DRAFT, LLAMA, "EAGLE3", MODEL],
    ["STANDALONE", DRAFT, LLAMA, "STANDALONE", MODEL],
    ["NGRAM", {}, LLAMA, "NGRAM", NGRAMS],
    ["NGRAM", {}, DEEPSEEK, "NGRAM", NGRAMS],
  ])("%s with %o: drafts come from", (algorithm, options, target, becomes, source) => {
    const all = { algorithm, ...options };
    const resolved = resolve(all, target);
    expect(resolved).toMatchObject({ algorithm: becomes, source });
    expect(Object.isFrozen(resolved) && Object.isFrozen(resolved!.shape)).toBe(true);
  });

  test("a revision goes with its path", () => {
    const options = { ...EAGLE, draftModelRevision: "v2" };
    expect(resolve(options, LLAMA)!.source).toEqual({ ...MODEL, revision: "v2" });
  });

  test("a path where the checkpoint has a layer of its own is used, and said", () => {
    const { sentences } = resolve(EAGLE, DEEPSEEK)!;
    expect(sentences).toEqual([expect.stringContaining("needs no draft model")]);
    expect(resolve(EAGLE, LLAMA)!.sentences).toEqual([]);
    const other = { ...EAGLE, algorithm: "STANDALONE" };
    expect(resolve(other, DEEPSEEK)!.sentences).toEqual([]);
  });

  test("none is none", () => {
    expect(resolve({}, LLAMA)).toBeUndefined();
    // What is done anyway may be said.
    const neutral = { adaptive: "auto", acceptThresholdAcc: 1 };
    expect(resolve(neutral, LLAMA)).toBeUndefined();
  });
});

describe("numbers", () => {
  test.each<[string, Given, string, number[]]>([
    ["a model of its own", { ...EAGLE, algorithm: "STANDALONE" }, "Any", [3, 1, 4]],
    ["DeepSeek-V2", EAGLE, "DeepseekV2ForCausalLM", [3, 1, 4]],
    ["DeepSeek-V3", EAGLE, "DeepseekV3ForCausalLM", [3, 1, 4]],
    ["gpt-oss", EAGLE, "GptOssForCausalLM", [3, 1, 4]],
    ["Llama", EAGLE, "LlamaForCausalLM", [5, 1, 6]],
    ["Llama", { ...EAGLE, algorithm: "EAGLE3" }, "LlamaForCausalLM", [5, 1, 6]],
    ["all others", EAGLE, "Qwen3MoeForCausalLM", [5, 1, 6]],
    ["n-grams", NGRAM, "LlamaForCausalLM", [11, 1, 12]],
  ])("defaults of %s", (_, options, architecture, wanted) => {
    expect(shapeOf(options, { ...LLAMA, architecture })).toEqual(wanted);
  });

  test.each<[Given, number[]]>([
    [{ ...EAGLE, ...numbers(3, 2, 6) }, [3, 2, 6]],
    [{ ...EAGLE, ...numbers(1, 1, 2) }, [1, 1, 2]],
    [{ ...EAGLE, ...numbers(5, 8, 64) }, [5, 8, 64]],
    [{ ...EAGLE, ...numbers(2, 2, 7) }, [2, 2, 7]],
    [{ ...NGRAM, ...numbers(undefined, undefined, 5) }, [4, 1, 5]],
    [{ ...NGRAM, ...numbers(7, 1, 8) }, [7, 1, 8]],
  ])("%o are taken as they are", (options, wanted) => {
    expect(shapeOf(options)).toEqual(wanted);
    expect(resolve(options, LLAMA)!.sentences).toEqual([]);
  });

  test.each([2, 9])("a chain of 3 steps has 4 rows, not %i, and the start says so", (given) => {
    const options = { ...EAGLE, ...numbers(3, 1, given) };
    expect(shapeOf(options)).toEqual([3, 1, 4]);
    expect(resolve(options, LLAMA)!.sentences).toEqual([
      expect.stringContaining("draft tokens are adjusted"),
    ]);
  });

  test.each<[Given, string, string]>([
    [{ ...EAGLE, ...numbers(3) }, "speculation.eagleTopk", "all three are given, or none"],
    [{ ...EAGLE, ...numbers(3, 1) }, "speculation.numDraftTokens", "all three are given, or none"],
    [{ ...EAGLE, ...numbers(undefined, 1, 4) }, "speculation.numSteps", "(not given)"],
    [{ ...EAGLE, ...numbers(undefined, undefined, 4) }, "speculation.numSteps", "all three"],
    [{ ...NGRAM, ...numbers(3) }, "speculation.eagleTopk", "all three are given, or none"],
    [
      { ...EAGLE, ...numbers(0, 1, 2) },
      "speculation.numSteps",
      "0: it must be a whole number from 1",
    ],
    [
      { ...EAGLE, ...numbers(3, 0, 4) },
      "speculation.eagleTopk",
      "0: it must be a whole number from",
    ],
    [
      { ...EAGLE, ...numbers(3, 1, 1) },
      "speculation.numDraftTokens",
      "1: it must be a whole number",
    ],
    [
      { ...NGRAM, ...numbers(undefined, undefined, 1) },
      "speculation.numDraftTokens",
      "from 2 to 256",
    ],
    [{ ...NGRAM, ...numbers(undefined, undefined, 66) }, "speculation.numSteps", "65: it must be"],
    [
      { ...EAGLE, ...numbers(1, 4, 8) },
      "speculation.numDraftTokens",
      "1 steps of top-k 4 give 4 candidates, which is enough for 5 at most",
    ],
    [
      { ...EAGLE, ...numbers(2, 2, 8) },
      "speculation.numDraftTokens",
      "2 steps of top-k 2 give 6 candidates, which is enough for 7 at most",
    ],
    [
      { ...NGRAM, ...numbers(3, 2, 6) },
      "speculation.eagleTopk",
      "with speculation.algorithm NGRAM",
    ],
  ])("%o are refused", (options, field, message) => {
    const error = refusal(options);
    expect(error).toBeInstanceOf(InvalidRequestError);
    expect(error).toMatchObject({ field, message: expect.stringContaining(message) });
  });
});

describe("attention backends", () => {
  const on = (prefillAttentionBackend: string, decodeAttentionBackend: string) => ({
    ...LLAMA,
    prefillAttentionBackend,
    decodeAttentionBackend,
  });

  test.each(["fa3", "flashinfer", "flashmla", "trtllm_mla"])("%s takes chains only", (name) => {
    for (const target of [on(name, name), on("triton", name), on(name, "triton")]) {
      const error = refusal({ ...EAGLE, ...numbers(5, 4, 8) }, target);
      expect(error).toBeInstanceOf(InvalidRequestError);
      expect(error).toMatchObject({
        field: "speculation.eagleTopk",
        message: `Cannot use speculation.eagleTopk 4 with attention backend ${name}: it must be 1 there`,
      });
      expect(shapeOf({ ...EAGLE, ...numbers(5, 1, 6) }, target)).toEqual([5, 1, 6]);
      // The default is a chain there.
      expect(shapeOf(EAGLE, target)).toEqual([5, 1, 6]);
      expect(shapeOf({ ...EAGLE, algorithm: "STANDALONE" }, target)).toEqual([3, 1, 4]);
    }
  });

  test.each(["auto", "subgroup", "portable", "triton", "aiter"])("%s takes trees", (name) => {
    expect(shapeOf({ ...EAGLE, ...numbers(5, 4, 8) }, on(name, name))).toEqual([5, 4, 8]);
  });

  test.each(["EAGLE", "EAGLE3", "STANDALONE", "NGRAM"])("cutlass_mla: no %s", (algorithm) => {
    const options = { ...(algorithm === "NGRAM" ? {} : DRAFT), algorithm };
    for (const target of [on("cutlass_mla", "auto"), on("auto", "cutlass_mla")]) {
      const error = refusal(options, target);
      expect(error).toBeInstanceOf(UnsupportedError);
      expect(error).toMatchObject({
        message:
          "Cannot use speculative decoding: it does not go with attention backend cutlass_mla",
      });
    }
  });
});

describe("what is written wrongly, or where it says nothing, is refused", () => {
  const WINDOW = { ngramMinMatchWindowSize: 3, ngramMaxMatchWindowSize: 2 };

  test.each<[Given, string, string]>([
    [{ algorithm: "eagle" }, "speculation.algorithm", "eagle: it must be one of EAGLE, "],
    [{ algorithm: "" }, "speculation.algorithm", "it must be one of"],
    [{ algorithm: "EAGLE" }, "speculation.algorithm", "has no draft layer"],
    [{ algorithm: "NEXTN" }, "speculation.algorithm", "of LlamaForCausalLM has no draft"],
    [{ algorithm: "EAGLE3" }, "speculation.algorithm", "needs speculation.draftModelPath"],
    [{ algorithm: "STANDALONE" }, "speculation.algorithm", "needs speculation.draftModel"],
    [{ ...NGRAM, ...DRAFT }, "speculation.draftModelPath", "NGRAM has no use for it"],
    [{ ...NGRAM, draftModelRevision: "a" }, "speculation.draftModelRevision", "no use"],
    [{ ...EAGLE, ...WINDOW }, "speculation.ngramMinMatchWindowSize", "EAGLE has no use for it"],
    [
      { ...NGRAM, ...WINDOW },
      "speculation.ngramMinMatchWindowSize",
      "3: it must be a whole number",
    ],
    [DRAFT, "speculation.draftModelPath", "no speculation.algorithm is given"],
    [numbers(3), "speculation.numSteps", "no speculation.algorithm is given"],
    [WINDOW, "speculation.ngramMinMatchWindowSize", "no speculation.algorithm is given"],
    [{ adaptive: "on" }, "speculation.adaptive", "no speculation.algorithm is given"],
    [{ adaptive: "yes" }, "speculation.adaptive", "one of auto, on, off"],
    [
      { acceptThresholdSingle: 0.5 },
      "speculation.acceptThresholdSingle",
      "no speculation.algorithm is given",
    ],
    [
      { ...NGRAM, acceptThresholdAcc: 1.01 },
      "speculation.acceptThresholdAcc",
      "1.01: it must be from 0 to 1",
    ],
    [
      { ...NGRAM, acceptThresholdSingle: Number.NaN },
      "speculation.acceptThresholdSingle",
      "NaN: it must be from 0 to 1",
    ],
  ])("%o", (options, field, message) => {
    const error = refusal(options);
    expect(error).toBeInstanceOf(InvalidRequestError);
    expect(error).toMatchObject({ field, message: expect.stringContaining(message) });
  });

  test("a revision of the checkpoint's own layer", () => {
    const options = { algorithm: "NEXTN", draftModelRevision: "a" };
    expect(refusal(options, DEEPSEEK)).toMatchObject({ field: "speculation.draftModelRevision" });
  });
});

test("a short window's least match is no longer than it", () => {
  const options = { ...NGRAM, ngramMaxMatchWindowSize: 1 };
  expect(resolve(options, LLAMA)!.source).toMatchObject({ window: { min: 1, max: 1 } });
});

describe("verification, adaptation", () => {
  test("thresholds of 1 draw; below, coins, and the start says that answers may differ", () => {
    expect(resolve(NGRAM, LLAMA)).toMatchObject({
      verification: "drawn",
      thresholds: { single: 1, acc: 1 },
      sentences: [],
    });
    for (const given of [{ acceptThresholdSingle: 0 }, { acceptThresholdAcc: 0.9 }]) {
      expect(resolve({ ...NGRAM, ...given }, LLAMA)).toMatchObject({
        verification: "coins",
        sentences: [expect.stringContaining("answers may differ")],
      });
    }
  });

  test.each<[string | undefined, boolean, boolean]>([
    [undefined, true, false],
    ["auto", true, false],
    ["on", true, true],
    ["off", false, false],
  ])("adaptive %s: %s, and with numbers %s", (adaptive, alone, pinned) => {
    const options = { ...EAGLE, adaptive };
    expect(resolve(options, LLAMA)!.adaptive).toBe(alone);
    const withNumbers = { ...options, ...numbers(3, 1, 4) };
    expect(resolve(withNumbers, LLAMA)!.adaptive).toBe(pinned);
    const oneNumber = { ...NGRAM, adaptive, numDraftTokens: 4 };
    expect(resolve(oneNumber, LLAMA)!.adaptive).toBe(pinned);
    // Where coins decide, answers depend on how many drafts there are.
    const byCoins = { ...options, acceptThresholdAcc: 0.5 };
    expect(resolve(byCoins, LLAMA)!.adaptive).toBe(adaptive === "on");
  });
});

describe("a draft model fits", () => {
  test.each<[DraftKind, string]>([
    ["EAGLE", "LlamaForCausalLMEagle"],
    ["EAGLE", "Qwen2ForCausalLMEagle"],
    ["EAGLE", "DeepseekV3ForCausalLMNextN"],
    ["EAGLE", "DeepseekV3ForCausalLM"],
    ["EAGLE3", "LlamaForCausalLMEagle3"],
    ["EAGLE3", "Eagle3DeepseekV2ForCausalLM"],
    ["STANDALONE", "LlamaForCausalLM"],
    ["STANDALONE", "DeepseekV3ForCausalLM"],
  ])("%s: %s", (algorithm, architecture) => {
    requireDraftFits(algorithm, { architecture, vocabularySize: 100 }, 100);
    expect(() => requireDraftFits(algorithm, { architecture, vocabularySize: 99 }, 100)).toThrow(
      "the draft has a vocabulary of 99 tokens, the model one of 100",
    );
  });

  test.each<[DraftKind, string]>([
    ["EAGLE", "LlamaForCausalLM"],
    ["EAGLE", "LlamaForCausalLMEagle3"],
    ["EAGLE3", "LlamaForCausalLMEagle"],
    ["STANDALONE", "LlamaForCausalLMEagle"],
    ["STANDALONE", "LlamaForCausalLMEagle3"],
  ])("%s does not take %s", (algorithm, architecture) => {
    expect(() => requireDraftFits(algorithm, { architecture, vocabularySize: 9 }, 9)).toThrow(
      `Cannot use speculation.draftModelPath with speculation.algorithm ${algorithm}: its architecture is ${architecture}`,
    );
  });
});
