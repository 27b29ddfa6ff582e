import { describe, expect, test } from "vitest";
import { memorySource } from "../../src/checkpoint/memory_source.ts";
import type { EngineOptions } from "../../src/engine/engine_options.ts";
import { resolveOptions } from "../../src/engine/resolve_options.ts";
import { InvalidRequestError, UnsupportedError } from "../../src/errors.ts";
import { asOptionError } from "../../src/node/serve/map_options.ts";
import type { SpeculationOptions } from "../../src/speculation/speculation_options.ts";

const vocabularySize = 640;
const LLAMA = {
  architecture: "LlamaForCausalLM",
  shape: { contextLength: 512, draftLayers: 0, vocabularySize },
};
const DEEPSEEK = {
  architecture: "DeepseekV3ForCausalLM",
  shape: { contextLength: 512, draftLayers: 1, vocabularySize },
};
/** No device is opened where options are decided. */
const device = () => Promise.reject(new Error("not to be opened"));

const resolve = (
  speculation: SpeculationOptions | undefined,
  { model = DEEPSEEK, ...options }: Partial<EngineOptions> & { readonly model?: typeof LLAMA } = {},
) => resolveOptions({ device, ...options, speculation }, model);

const numbers = (numSteps?: number, eagleTopk?: number, numDraftTokens?: number) => ({
  numSteps,
  eagleTopk,
  numDraftTokens,
});

describe("a step has room for drafts of", () => {
  test.each<[string, SpeculationOptions, { maxDrafts: number; draftSteps: number }]>([
    ["the checkpoint's layer", { algorithm: "EAGLE" }, { maxDrafts: 3, draftSteps: 3 }],
    ["it by another name", { algorithm: "NEXTN" }, { maxDrafts: 3, draftSteps: 3 }],
    ["n-grams", { algorithm: "NGRAM" }, { maxDrafts: 11, draftSteps: 0 }],
    [
      "as many steps as are asked for",
      { algorithm: "EAGLE", ...numbers(5, 1, 6) },
      { maxDrafts: 5, draftSteps: 5 },
    ],
    ["so many n-grams", { algorithm: "NGRAM", numDraftTokens: 4 }, { maxDrafts: 3, draftSteps: 0 }],
    ["nothing", {}, { maxDrafts: 0, draftSteps: 0 }],
  ])("%s", (_, options, wanted) => {
    const resolved = resolve(options, { maxRowsPerStep: 1024 });
    expect(resolved).toMatchObject({
      ...wanted,
      maxRunningRequests: 32,
      maxGeneratedRows: 32 * (1 + wanted.maxDrafts),
    });
    expect(resolved.speculation === undefined).toBe(options.algorithm === undefined);
    expect(Object.isFrozen(resolved.speculation)).toBe(true);
  });

  test("trees, which are deeper than wide or the reverse", () => {
    const options = { maxRowsPerStep: 1024 };
    expect(resolve({ algorithm: "EAGLE", ...numbers(3, 2, 6) }, options)).toMatchObject({
      ...{ maxDrafts: 5, draftSteps: 3, maxGeneratedRows: 32 * 6 },
      tree: { steps: 3, topk: 2, draftTokens: 6 },
    });
    const tree = { steps: 4, topk: 64, draftTokens: 64 };
    expect(resolve({ algorithm: "EAGLE", ...numbers(4, 64, 64) }).tree).toEqual(tree);
    expect(resolve({ algorithm: "EAGLE" }).tree).toBeUndefined();
  });

  test("nothing without the option", () => {
    expect(resolve(undefined)).toMatchObject({ maxDrafts: 0, draftSteps: 0, maxGeneratedRows: 32 });
    expect(resolve(undefined).speculation).toBeUndefined();
  });

  test.each<[SpeculationOptions, boolean]>([
    [{ algorithm: "EAGLE" }, true],
    [{ algorithm: "EAGLE", adaptive: "off" }, false],
    [{ algorithm: "EAGLE", ...numbers(3, 1, 4) }, false],
    [{ algorithm: "EAGLE", ...numbers(3, 1, 4), adaptive: "on" }, true],
    [{ algorithm: "NGRAM" }, true],
    [{ algorithm: "NGRAM", numDraftTokens: 4 }, false],
    [{}, false],
  ])("%o, or fewer where they do not pay: %s", (options, adaptiveDrafts) => {
    expect(resolve(options, { maxRowsPerStep: 1024 })).toMatchObject({ adaptiveDrafts });
  });

  test("more requests, and more sizes of recorded steps", () => {
    const decodeBuckets = [1, 48, 96, 192, 256];
    const options = { maxRunningRequests: 48, decodeBuckets, maxRowsPerStep: 256 };
    expect(resolve({ algorithm: "EAGLE" }, options)).toMatchObject({
      maxRunningRequests: 48,
      decodeBuckets,
      maxGeneratedRows: 192,
    });
  });
});

/** An error as the library's user reads it, and as one at a terminal does. */
function refusal(speculation: SpeculationOptions, options: Parameters<typeof resolve>[1] = {}) {
  try {
    resolve(speculation, options);
  } catch (error) {
    return { error: error as InvalidRequestError, told: asOptionError(error) as Error };
  }
  throw new Error("Cannot go on: nothing was refused");
}

describe("what engines do not do yet is refused, with what they do", () => {
  const EAGLE = { algorithm: "EAGLE" } as const;
  test.each<[SpeculationOptions, string, string]>([
    [{ ...EAGLE, ...numbers(17, 2, 6) }, "numSteps 17", "16 are the most"],
    [{ ...EAGLE, ...numbers(5, 8, 65) }, "numDraftTokens 65", "64 are the most"],
    [{ ...EAGLE, ...numbers(16, 17, 64) }, "eagleTopk 17", "with 16 steps, 16 are the most"],
    [{ ...EAGLE, ...numbers(33, 1, 34) }, "numSteps 33", "32 at most"],
    [{ ...EAGLE, ...numbers(3, 2, 6), adaptive: "on" }, "adaptive on", "with a top-k of 1"],
  ])("%o", (options, named, why) => {
    const { error, told } = refusal(options);
    expect(error).toBeInstanceOf(UnsupportedError);
    expect(error.field).toBe(`speculation.${named.split(" ")[0]}`);
    expect(error.message).toMatch(`Cannot use speculation.${named}: `);
    expect(error.message).toContain(why);
    const flag = `--speculative-${named.split(" ")[0]!.replace(/[A-Z]/g, (c) => `-${c.toLowerCase()}`)}`;
    expect(told.message).toBe(
      error.message.replace(`speculation.${named.split(" ")[0]}`, `option ${flag}`),
    );
  });
});

test("positions with parts: drafts of n-grams, and none that steps make", () => {
  const partedRope = { theta: 1e4, dim: 8, parts: [2, 1, 1] } as const;
  const shape = { ...DEEPSEEK.shape, partedRope };
  const model = { architecture: "Qwen2_5_VLForConditionalGeneration", shape };
  expect(resolve({ algorithm: "NGRAM" }, { model })).toMatchObject({ maxDrafts: 11 });
  const { error } = refusal({ algorithm: "EAGLE" }, { model });
  expect(error).toBeInstanceOf(UnsupportedError);
  expect(error.field).toBe("speculation.algorithm");
  expect(error.message).toBe(
    "Cannot use speculation.algorithm EAGLE: positions of Qwen2_5_VLForConditionalGeneration have parts, " +
      "which no step finds for drafts; NGRAM drafts for it",
  );
});

describe("a model that drafts", () => {
  const draftModel = { ...memorySource({}), name: "org/small" };
  const standalone = { algorithm: "STANDALONE" } as const;
  const draftOf = (size: number, architecture = "Qwen2ForCausalLM") => ({
    architecture,
    shape: { vocabularySize: size },
  });
  const resolveWith = (
    draft: ReturnType<typeof draftOf>,
    speculation: SpeculationOptions | undefined,
  ) => resolveOptions({ device, speculation, draftModel }, { ...LLAMA, draft });

  test("makes as many drafts as steps, by its source's name", () => {
    const { speculation, ...sizes } = resolveWith(draftOf(vocabularySize), standalone);
    expect(sizes).toMatchObject({ maxDrafts: 3, draftSteps: 3 });
    expect(speculation!.source).toMatchObject({ kind: "model", path: "org/small" });
    expect(() =>
      resolveWith(draftOf(vocabularySize), { ...standalone, ...numbers(33, 1, 34) }),
    ).toThrow("a draft model takes 32 at most");
  });

  test.each<[ReturnType<typeof draftOf>, SpeculationOptions | undefined, string]>([
    [
      draftOf(641),
      standalone,
      "Cannot use speculation.draftModelPath: the draft has a vocabulary of 641 tokens, the model one of 640",
    ],
    [
      draftOf(640, "LlamaForCausalLMEagle"),
      standalone,
      "Cannot use speculation.draftModelPath with speculation.algorithm STANDALONE: its architecture is LlamaForCausalLMEagle",
    ],
    [
      draftOf(640, "DeepseekV3ForCausalLM"),
      { algorithm: "EAGLE", ...numbers(3, 1, 4) },
      "Cannot use speculation.draftModelPath org/small: its architecture is DeepseekV3ForCausalLM; EAGLE drafts by",
    ],
    [
      draftOf(640, "LlamaForCausalLMEagle"),
      { algorithm: "EAGLE3", ...numbers(3, 1, 4) },
      "with speculation.algorithm EAGLE3: its architecture is LlamaForCausalLMEagle",
    ],
    [
      draftOf(640),
      undefined,
      "Cannot use speculation.draftModelPath: no speculation.algorithm is given",
    ],
    [
      draftOf(640),
      { algorithm: "NGRAM" },
      "Cannot use speculation.draftModelPath: speculation.algorithm NGRAM has no use for it",
    ],
  ])("is refused: %o, %o", (draft, speculation, message) => {
    expect(() => resolveWith(draft, speculation)).toThrow(message);
  });
});

describe("a mistake leads to the option, in the library and at a terminal", () => {
  test.each<[SpeculationOptions, typeof LLAMA, string, string, string]>([
    [
      { algorithm: "EAGLE", numSteps: 3 },
      DEEPSEEK,
      "speculation.eagleTopk",
      "Cannot use speculation.numSteps 3, speculation.eagleTopk (not given) and speculation.numDraftTokens (not given): all three are given, or none",
      "Cannot use --speculative-num-steps 3, option --speculative-eagle-topk (not given) and --speculative-num-draft-tokens (not given): all three are given, or none",
    ],
    [
      { algorithm: "EAGLE" },
      LLAMA,
      "speculation.algorithm",
      "Cannot use speculation.algorithm EAGLE: this checkpoint of LlamaForCausalLM has no draft layer, and no speculation.draftModelPath is given",
      "Cannot use option --speculative-algorithm EAGLE: this checkpoint of LlamaForCausalLM has no draft layer, and no --speculative-draft-model-path is given",
    ],
    [
      { numSteps: 3 },
      DEEPSEEK,
      "speculation.numSteps",
      "Cannot use speculation.numSteps: no speculation.algorithm is given",
      "Cannot use option --speculative-num-steps: no --speculative-algorithm is given",
    ],
    [
      { algorithm: "NGRAM", ngramMinMatchWindowSize: 20 },
      DEEPSEEK,
      "speculation.ngramMinMatchWindowSize",
      "Cannot use speculation.ngramMinMatchWindowSize 20: it must be a whole number from 1 to speculation.ngramMaxMatchWindowSize 12",
      "Cannot use option --speculative-ngram-min-match-window-size 20: it must be a whole number from 1 to --speculative-ngram-max-match-window-size 12",
    ],
    [
      { algorithm: "EAGLE3" },
      LLAMA,
      "speculation.algorithm",
      "Cannot use speculation.algorithm EAGLE3: it needs speculation.draftModelPath",
      "Cannot use option --speculative-algorithm EAGLE3: it needs --speculative-draft-model-path",
    ],
    [
      { algorithm: "STANDALONE", draftModelPath: "a" },
      LLAMA,
      "speculation.draftModelPath",
      "Cannot use speculation.draftModelPath a: an engine takes the opened model, as draftModel",
      "Cannot use option --speculative-draft-model-path a: an engine takes the opened model, as draftModel",
    ],
    [
      { algorithm: "STANDALONE" },
      LLAMA,
      "speculation.algorithm",
      "Cannot use speculation.algorithm STANDALONE: it needs speculation.draftModelPath",
      "Cannot use option --speculative-algorithm STANDALONE: it needs --speculative-draft-model-path",
    ],
    [
      { algorithm: "NGRAM", draftModelPath: "a" },
      DEEPSEEK,
      "speculation.draftModelPath",
      "Cannot use speculation.draftModelPath: speculation.algorithm NGRAM has no use for it",
      "Cannot use option --speculative-draft-model-path: --speculative-algorithm NGRAM has no use for it",
    ],
  ])("%o", (options, model, field, message, flags) => {
    const { error, told } = refusal(options, { model });
    expect(error).toBeInstanceOf(InvalidRequestError);
    expect(error).toMatchObject({ field, message });
    expect(told.message).toBe(flags);
  });

  test("backends count by the names that were asked for", () => {
    const named = (name: string) => ({
      prefillAttentionBackend: "triton",
      decodeAttentionBackend: name,
    });
    const cutlass = { algorithm: "NGRAM", attentionBackends: named("cutlass_mla") } as const;
    expect(refusal(cutlass).told.message).toBe(
      "Cannot use speculative decoding: it does not go with attention backend cutlass_mla",
    );
    const fa3 = {
      algorithm: "EAGLE",
      ...numbers(3, 2, 6),
      attentionBackends: named("fa3"),
    } as const;
    expect(refusal(fa3).told.message).toBe(
      "Cannot use option --speculative-eagle-topk 2 with attention backend fa3: it must be 1 there",
    );
  });
});
