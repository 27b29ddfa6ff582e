/**
 * How many drafts: the three numbers of the options, or those of the model's architecture.
 *
 * @module
 */
import { InvalidRequestError } from "../errors.ts";
import { type AskedBackends, topkOneBackend } from "./attention_rules.ts";
import type { SpeculativeAlgorithm } from "./draft_source.ts";
import { type DraftTreeNumbers, DraftTreeShape } from "./draft_tree_shape.ts";

/** All three are given, or none. */
export interface DraftNumberOptions {
  readonly speculativeNumSteps?: number | undefined;
  readonly speculativeEagleTopk?: number | undefined;
  readonly speculativeNumDraftTokens?: number | undefined;
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
  const numbers = pinned ?? defaultNumbers(algorithm, target.architecture, chainOnly !== undefined);
  const shape = new DraftTreeShape(asChain(numbers));
  const { steps, topk } = shape;
  if (topk > 1 && chainOnly !== undefined) {
    const what = algorithm === "NGRAM" ? "speculativeAlgorithm" : "attention backend";
    throw new InvalidRequestError(
      `Cannot use speculativeEagleTopk ${topk} with ${what} ${chainOnly}: it must be 1 there`,
      "speculativeEagleTopk",
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
  const { speculativeNumSteps: steps, speculativeEagleTopk: topk } = options;
  const { speculativeNumDraftTokens: draftTokens } = options;
  if (steps !== undefined && topk !== undefined && draftTokens !== undefined) {
    return { steps, topk, draftTokens };
  }
  if (steps === undefined && topk === undefined && draftTokens === undefined) return undefined;
  if (algorithm === "NGRAM" && steps === undefined && topk === undefined) {
    return { steps: Math.max(draftTokens! - 1, 1), topk: 1, draftTokens: draftTokens! };
  }
  const field =
    steps === undefined
      ? "speculativeNumSteps"
      : topk === undefined
        ? "speculativeEagleTopk"
        : "speculativeNumDraftTokens";
  throw new InvalidRequestError(
    `Cannot use speculativeNumSteps ${steps ?? "(not given)"}, speculativeEagleTopk ${topk ?? "(not given)"} ` +
      `and speculativeNumDraftTokens ${draftTokens ?? "(not given)"}: all three are given, or none`,
    field,
  );
}

/** These were trained for few drafts, or draft a whole model's step at a time. */
const CHAINS_OF_3 = ["DeepseekV2ForCausalLM", "DeepseekV3ForCausalLM", "GptOssForCausalLM"];

function defaultNumbers(
  algorithm: SpeculativeAlgorithm,
  architecture: string,
  isChain: boolean,
): DraftTreeNumbers {
  if (algorithm === "NGRAM") return { steps: 11, topk: 1, draftTokens: 12 };
  if (algorithm === "STANDALONE" || CHAINS_OF_3.includes(architecture)) {
    return { steps: 3, topk: 1, draftTokens: 4 };
  }
  return isChain ? { steps: 5, topk: 1, draftTokens: 6 } : { steps: 5, topk: 4, draftTokens: 8 };
}
