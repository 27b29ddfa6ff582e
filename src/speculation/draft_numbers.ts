/**
 * How many drafts: the three numbers of the options, or those of the model's architecture.
 *
 * @module
 */
import { InvalidRequestError } from "../errors.ts";
import { type AskedBackends, topkOneBackend } from "./attention_rules.ts";
import type { SpeculativeAlgorithm } from "./draft_source.ts";
import { type DraftTreeNumbers, DraftTreeShape } from "./draft_tree_shape.ts";

/**
 * All three are given, or none; `NGRAM` also takes `numDraftTokens` alone. Default: 3, 1, 4 for
 * DeepSeek's architectures and gpt-oss, 11, 1, 12 for `NGRAM`, else 5, 1, 6.
 */
export interface DraftNumberOptions {
  /** Drafts that follow each other, from 1 to 64. */
  readonly numSteps?: number | undefined;
  /**
   * Candidates behind each of the best drafts of a step. Above 1 drafts are a tree, of 16 steps and 64
   * draft tokens at most.
   */
  readonly eagleTopk?: number | undefined;
  /** Rows that a step verifies of a sequence, its newest token among them, from 2 to 256. */
  readonly numDraftTokens?: number | undefined;
}

/** What decides about the numbers beside the options. */
export interface NumberFacts extends AskedBackends {
  /** The name in the `architectures` of config.json. */
  readonly architecture: string;
}

export interface ResolvedNumbers {
  readonly shape: DraftTreeShape;
  /** Whether the options say the numbers. */
  readonly arePinned: boolean;
  /** Whether they say another number of draft tokens than a chain has. */
  readonly isAdjusted: boolean;
}

/** @throws {InvalidRequestError} naming the number that is wrong. */
export function resolveNumbers(
  algorithm: SpeculativeAlgorithm,
  options: DraftNumberOptions,
  target: NumberFacts,
): ResolvedNumbers {
  const pinned = pinnedNumbers(algorithm, options);
  const chainOnly = algorithm === "NGRAM" ? "NGRAM" : topkOneBackend(target);
  const numbers = pinned ?? defaultNumbers(algorithm, target.architecture);
  const shape = new DraftTreeShape(asChain(numbers));
  const { steps, topk } = shape;
  if (topk > 1 && chainOnly !== undefined) {
    const what = algorithm === "NGRAM" ? "speculation.algorithm" : "attention backend";
    throw new InvalidRequestError(
      `Cannot use speculation.eagleTopk ${topk} with ${what} ${chainOnly}: it must be 1 there`,
      "speculation.eagleTopk",
    );
  }
  return {
    shape,
    arePinned: pinned !== undefined,
    isAdjusted: topk === 1 && numbers.draftTokens !== steps + 1,
  };
}

/** A chain has as many rows as steps and the root. */
function asChain(numbers: DraftTreeNumbers): DraftTreeNumbers {
  const { steps, topk, draftTokens } = numbers;
  // What is out of range is left to be refused as it was written.
  return topk === 1 && draftTokens >= 2 ? { steps, topk, draftTokens: steps + 1 } : numbers;
}

/** All three numbers or none; drafts of n-grams have one number, which says it all. */
function pinnedNumbers(
  algorithm: SpeculativeAlgorithm,
  options: DraftNumberOptions,
): DraftTreeNumbers | undefined {
  const { numSteps: steps, eagleTopk: topk } = options;
  const { numDraftTokens: draftTokens } = options;
  if (steps !== undefined && topk !== undefined && draftTokens !== undefined) {
    return { steps, topk, draftTokens };
  }
  if (steps === undefined && topk === undefined && draftTokens === undefined) return undefined;
  if (algorithm === "NGRAM" && steps === undefined && topk === undefined) {
    return { steps: Math.max(draftTokens! - 1, 1), topk: 1, draftTokens: draftTokens! };
  }
  const field =
    steps === undefined
      ? "speculation.numSteps"
      : topk === undefined
        ? "speculation.eagleTopk"
        : "speculation.numDraftTokens";
  throw new InvalidRequestError(
    `Cannot use speculation.numSteps ${steps ?? "(not given)"}, speculation.eagleTopk ${topk ?? "(not given)"} ` +
      `and speculation.numDraftTokens ${draftTokens ?? "(not given)"}: all three are given, or none`,
    field,
  );
}

/** These were trained for few drafts, or draft a whole model's step at a time. */
const CHAINS_OF_3 = ["DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "GptOssForCausalLM"];

function defaultNumbers(algorithm: SpeculativeAlgorithm, architecture: string): DraftTreeNumbers {
  if (algorithm === "NGRAM") return { steps: 11, topk: 1, draftTokens: 12 };
  if (algorithm === "STANDALONE" || CHAINS_OF_3.includes(architecture)) {
    return { steps: 3, topk: 1, draftTokens: 4 };
  }
  // Heads were trained for longer chains. The size of a tree would not follow what pays.
  return { steps: 5, topk: 1, draftTokens: 6 };
}
