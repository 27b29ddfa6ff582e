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

const DRAFT = { speculativeDraftModelPath: "drafts/small" };
const EAGLE = { speculativeAlgorithm: "EAGLE", ...DRAFT };
const NGRAM = { speculativeAlgorithm: "NGRAM" };

/** The three numbers, as options. */
function numbers(steps?: number, topk?: number, draftTokens?: number): SpeculationOptions {
  return {
    speculativeNumSteps: steps,
    speculativeEagleTopk: topk,
    speculativeNumDraftTokens: draftTokens,
  };
}

function shapeOf(options: SpeculationOptions, target = LLAMA): number[] {
  const { steps, topk, draftTokens } = resolveSpeculation(options, target)!.shape;
  return [steps, topk, draftTokens];
}

function refusal(options: SpeculationOptions, target = LLAMA): unknown {
  try {
    return resolveSpeculation(options, target);
  } catch (error) {
    return error;
  }
}

describe("algorithms", () => {
  const OWN_LAYER = { kind: "mtp layer" };
  const MODEL = { kind: "model", path: "drafts/small", revision: undefined };
  const NGRAMS = { kind: "ngrams", window: { min: 2, max: 12 } };

  test.each<[string, SpeculationOptions, TargetFacts, string, object]>([
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
    const all = { speculativeAlgorithm: algorithm, ...options };
    const resolved = resolveSpeculation(all, target);
    expect(resolved).toMatchObject({ algorithm: becomes, source });
    expect(Object.isFrozen(resolved) && Object.isFrozen(resolved!.shape)).toBe(true);
  });

  test("a revision goes with its path", () => {
    const options = { ...EAGLE, speculativeDraftModelRevision: "v2" };
    expect(resolveSpeculation(options, LLAMA)!.source).toEqual({ ...MODEL, revision: "v2" });
  });

  test("a path where the checkpoint has a layer of its own is used, and said", () => {
    const { sentences } = resolveSpeculation(EAGLE, DEEPSEEK)!;
    expect(sentences).toEqual([expect.stringContaining("needs no draft model")]);
    expect(resolveSpeculation(EAGLE, LLAMA)!.sentences).toEqual([]);
    const other = { ...EAGLE, speculativeAlgorithm: "STANDALONE" };
    expect(resolveSpeculation(other, DEEPSEEK)!.sentences).toEqual([]);
  });

  test("none is none", () => {
    expect(resolveSpeculation({}, LLAMA)).toBeUndefined();
    // What is done anyway may be said.
    const neutral = { speculativeAdaptive: "auto", speculativeAcceptThresholdAcc: 1 };
    expect(resolveSpeculation(neutral, LLAMA)).toBeUndefined();
  });
});

describe("numbers", () => {
  test.each<[string, SpeculationOptions, string, number[]]>([
    ["a model of its own", { ...EAGLE, speculativeAlgorithm: "STANDALONE" }, "Any", [3, 1, 4]],
    ["DeepSeek-V2", EAGLE, "DeepseekV2ForCausalLM", [3, 1, 4]],
    ["DeepSeek-V3", EAGLE, "DeepseekV3ForCausalLM", [3, 1, 4]],
    ["gpt-oss", EAGLE, "GptOssForCausalLM", [3, 1, 4]],
    ["Llama", EAGLE, "LlamaForCausalLM", [5, 4, 8]],
    ["Llama", { ...EAGLE, speculativeAlgorithm: "EAGLE3" }, "LlamaForCausalLM", [5, 4, 8]],
    ["all others", EAGLE, "Qwen3MoeForCausalLM", [5, 4, 8]],
    ["n-grams", NGRAM, "LlamaForCausalLM", [11, 1, 12]],
  ])("defaults of %s", (_, options, architecture, wanted) => {
    expect(shapeOf(options, { ...LLAMA, architecture })).toEqual(wanted);
  });

  test.each<[SpeculationOptions, number[]]>([
    [{ ...EAGLE, ...numbers(3, 2, 6) }, [3, 2, 6]],
    [{ ...EAGLE, ...numbers(1, 1, 2) }, [1, 1, 2]],
    [{ ...EAGLE, ...numbers(5, 8, 64) }, [5, 8, 64]],
    [{ ...EAGLE, ...numbers(2, 2, 7) }, [2, 2, 7]],
    [{ ...NGRAM, ...numbers(undefined, undefined, 5) }, [4, 1, 5]],
    [{ ...NGRAM, ...numbers(7, 1, 8) }, [7, 1, 8]],
  ])("%o are taken as they are", (options, wanted) => {
    expect(shapeOf(options)).toEqual(wanted);
    expect(resolveSpeculation(options, LLAMA)!.sentences).toEqual([]);
  });

  test.each([2, 9])("a chain of 3 steps has 4 rows, not %i, and the start says so", (given) => {
    const options = { ...EAGLE, ...numbers(3, 1, given) };
    expect(shapeOf(options)).toEqual([3, 1, 4]);
    expect(resolveSpeculation(options, LLAMA)!.sentences).toEqual([
      expect.stringContaining("draft tokens are adjusted"),
    ]);
  });

  test.each<[SpeculationOptions, string, string]>([
    [{ ...EAGLE, ...numbers(3) }, "speculativeEagleTopk", "all three are given, or none"],
    [{ ...EAGLE, ...numbers(3, 1) }, "speculativeNumDraftTokens", "all three are given, or none"],
    [{ ...EAGLE, ...numbers(undefined, 1, 4) }, "speculativeNumSteps", "(not given)"],
    [{ ...EAGLE, ...numbers(undefined, undefined, 4) }, "speculativeNumSteps", "all three"],
    [{ ...NGRAM, ...numbers(3) }, "speculativeEagleTopk", "all three are given, or none"],
    [
      { ...EAGLE, ...numbers(0, 1, 2) },
      "speculativeNumSteps",
      "0: it must be a whole number from 1",
    ],
    [
      { ...EAGLE, ...numbers(3, 0, 4) },
      "speculativeEagleTopk",
      "0: it must be a whole number from",
    ],
    [
      { ...EAGLE, ...numbers(3, 1, 1) },
      "speculativeNumDraftTokens",
      "1: it must be a whole number",
    ],
    [
      { ...NGRAM, ...numbers(undefined, undefined, 1) },
      "speculativeNumDraftTokens",
      "from 2 to 256",
    ],
    [{ ...NGRAM, ...numbers(undefined, undefined, 66) }, "speculativeNumSteps", "65: it must be"],
    [
      { ...EAGLE, ...numbers(1, 4, 8) },
      "speculativeNumDraftTokens",
      "1 steps of top-k 4 give 4 candidates, which is enough for 5 at most",
    ],
    [
      { ...EAGLE, ...numbers(2, 2, 8) },
      "speculativeNumDraftTokens",
      "2 steps of top-k 2 give 6 candidates, which is enough for 7 at most",
    ],
    [{ ...NGRAM, ...numbers(3, 2, 6) }, "speculativeEagleTopk", "with speculativeAlgorithm NGRAM"],
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
        field: "speculativeEagleTopk",
        message: `Cannot use speculativeEagleTopk 4 with attention backend ${name}: it must be 1 there`,
      });
      expect(shapeOf({ ...EAGLE, ...numbers(5, 1, 6) }, target)).toEqual([5, 1, 6]);
      // The default is a chain there.
      expect(shapeOf(EAGLE, target)).toEqual([5, 1, 6]);
      expect(shapeOf({ ...EAGLE, speculativeAlgorithm: "STANDALONE" }, target)).toEqual([3, 1, 4]);
    }
  });

  test.each(["auto", "subgroup", "portable", "triton", "aiter"])("%s takes trees", (name) => {
    expect(shapeOf({ ...EAGLE, ...numbers(5, 4, 8) }, on(name, name))).toEqual([5, 4, 8]);
  });

  test.each(["EAGLE", "EAGLE3", "STANDALONE", "NGRAM"])("cutlass_mla: no %s", (algorithm) => {
    const options = { ...(algorithm === "NGRAM" ? {} : DRAFT), speculativeAlgorithm: algorithm };
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

test.each(["STANDALONE", "NGRAM"])("data-parallel attention: no %s", (algorithm) => {
  const options = { ...(algorithm === "NGRAM" ? {} : DRAFT), speculativeAlgorithm: algorithm };
  expect(refusal(options, { ...LLAMA, dpAttention: true })).toBeInstanceOf(UnsupportedError);
  expect(resolveSpeculation(EAGLE, { ...LLAMA, dpAttention: true })!.algorithm).toBe("EAGLE");
});

describe("what is written wrongly, or where it says nothing, is refused", () => {
  const WINDOW = { speculativeNgramMinMatchWindowSize: 3, speculativeNgramMaxMatchWindowSize: 2 };

  test.each<[SpeculationOptions, string, string]>([
    [{ speculativeAlgorithm: "eagle" }, "speculativeAlgorithm", "eagle: it must be one of EAGLE, "],
    [{ speculativeAlgorithm: "" }, "speculativeAlgorithm", "it must be one of"],
    [{ speculativeAlgorithm: "EAGLE" }, "speculativeAlgorithm", "has no draft layer"],
    [{ speculativeAlgorithm: "NEXTN" }, "speculativeAlgorithm", "of LlamaForCausalLM has no draft"],
    [{ speculativeAlgorithm: "EAGLE3" }, "speculativeAlgorithm", "needs speculativeDraftModelPath"],
    [{ speculativeAlgorithm: "STANDALONE" }, "speculativeAlgorithm", "needs speculativeDraftModel"],
    [{ ...NGRAM, ...DRAFT }, "speculativeDraftModelPath", "NGRAM has no use for it"],
    [{ ...NGRAM, speculativeDraftModelRevision: "a" }, "speculativeDraftModelRevision", "no use"],
    [{ ...EAGLE, ...WINDOW }, "speculativeNgramMinMatchWindowSize", "EAGLE has no use for it"],
    [{ ...NGRAM, ...WINDOW }, "speculativeNgramMinMatchWindowSize", "3: it must be a whole number"],
    [DRAFT, "speculativeDraftModelPath", "no speculativeAlgorithm is given"],
    [numbers(3), "speculativeNumSteps", "no speculativeAlgorithm is given"],
    [WINDOW, "speculativeNgramMinMatchWindowSize", "no speculativeAlgorithm is given"],
    [{ speculativeAdaptive: "on" }, "speculativeAdaptive", "no speculativeAlgorithm is given"],
    [{ speculativeAdaptive: "yes" }, "speculativeAdaptive", "one of auto, on, off"],
    [
      { speculativeAcceptThresholdSingle: 0.5 },
      "speculativeAcceptThresholdSingle",
      "no speculativeAlgorithm is given",
    ],
    [
      { ...NGRAM, speculativeAcceptThresholdAcc: 1.01 },
      "speculativeAcceptThresholdAcc",
      "1.01: it must be from 0 to 1",
    ],
    [
      { ...NGRAM, speculativeAcceptThresholdSingle: Number.NaN },
      "speculativeAcceptThresholdSingle",
      "NaN: it must be from 0 to 1",
    ],
  ])("%o", (options, field, message) => {
    const error = refusal(options);
    expect(error).toBeInstanceOf(InvalidRequestError);
    expect(error).toMatchObject({ field, message: expect.stringContaining(message) });
  });

  test("a revision of the checkpoint's own layer", () => {
    const options = { speculativeAlgorithm: "NEXTN", speculativeDraftModelRevision: "a" };
    expect(refusal(options, DEEPSEEK)).toMatchObject({ field: "speculativeDraftModelRevision" });
  });
});

test("a short window's least match is no longer than it", () => {
  const options = { ...NGRAM, speculativeNgramMaxMatchWindowSize: 1 };
  expect(resolveSpeculation(options, LLAMA)!.source).toMatchObject({ window: { min: 1, max: 1 } });
});

describe("verification, adaptation, requests at once", () => {
  test("thresholds of 1 draw; below, coins, and the start says that answers may differ", () => {
    expect(resolveSpeculation(NGRAM, LLAMA)).toMatchObject({
      verification: "drawn",
      thresholds: { single: 1, acc: 1 },
      sentences: [],
    });
    for (const given of [
      { speculativeAcceptThresholdSingle: 0 },
      { speculativeAcceptThresholdAcc: 0.9 },
    ]) {
      expect(resolveSpeculation({ ...NGRAM, ...given }, LLAMA)).toMatchObject({
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
  ])("adaptive %s: %s, and with numbers %s", (speculativeAdaptive, alone, pinned) => {
    const options = { ...EAGLE, speculativeAdaptive };
    expect(resolveSpeculation(options, LLAMA)!.adaptive).toBe(alone);
    const withNumbers = { ...options, ...numbers(3, 1, 4) };
    expect(resolveSpeculation(withNumbers, LLAMA)!.adaptive).toBe(pinned);
    const oneNumber = { ...NGRAM, speculativeAdaptive, speculativeNumDraftTokens: 4 };
    expect(resolveSpeculation(oneNumber, LLAMA)!.adaptive).toBe(pinned);
  });

  test("32 requests at once, or as many as are asked for", () => {
    expect(resolveSpeculation(NGRAM, LLAMA)!.maxRunningRequests).toBe(32);
    const more = { ...NGRAM, maxRunningRequests: 100 };
    expect(resolveSpeculation(more, LLAMA)!.maxRunningRequests).toBe(100);
  });
});

describe("a draft model fits", () => {
  test.each<[DraftKind, string]>([
    ["EAGLE", "LlamaForCausalLMEagle"],
    ["EAGLE", "Qwen2ForCausalLMEagle"],
    ["EAGLE", "DeepseekV3ForCausalLMNextN"],
    ["EAGLE", "DeepseekV3ForCausalLM"],
    ["EAGLE3", "LlamaForCausalLMEagle3"],
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
      `Cannot use speculativeDraftModelPath with speculativeAlgorithm ${algorithm}: its architecture is ${architecture}`,
    );
  });
});
