/**
 * Options of speculative decoding, checked and with the defaults of the model's architecture.
 *
 * @module
 */

import { InvalidRequestError } from "../errors.ts";
import { type AskedBackends, requireBackends } from "./attention_rules.ts";
import { type DraftNumberOptions, type NumberFacts, resolveNumbers } from "./draft_numbers.ts";
import {
  type DraftKind,
  type DraftSource,
  type DraftSourceOptions,
  resolveSource,
  type SourceFacts,
  type SpeculativeAlgorithm,
  takesMtpLayer,
} from "./draft_source.ts";
import type { DraftTreeShape } from "./draft_tree_shape.ts";
import { SPECULATIVE_ADAPTIVE, SPECULATIVE_ALGORITHMS } from "./option_values.ts";
import type { AcceptThresholds } from "./verify.ts";

/**
 * Where drafts come from, and how many. An error's `field` is one of these names behind
 * `speculation.`, as the library's users write them.
 */
export interface SpeculationOptions extends DraftNumberOptions, DraftSourceOptions {
  /**
   * `NGRAM`: drafts are what the request's prompt and answer repeat. `EAGLE`, `NEXTN`: a layer of the
   * checkpoint predicts them. `EAGLE3`, `STANDALONE`: a draft model does. Default: no drafts.
   */
  readonly algorithm?: SpeculativeAlgorithm | undefined;
  /**
   * Probability of a token from which a draft of it is accepted whatever is drawn, from 0 to 1. Default
   * 1, which changes no answer.
   */
  readonly acceptThresholdSingle?: number | undefined;
  /**
   * Drafts are accepted as if their tokens were so many times likelier: it divides their probability,
   * from 0 to 1. Default 1, which changes no answer.
   */
  readonly acceptThresholdAcc?: number | undefined;
  /**
   * Whether steps have fewer drafts, or none, where they do not pay: `auto` where no numbers are given,
   * which are the most with `on`, and both thresholds are 1. Default auto.
   */
  readonly adaptive?: (typeof SPECULATIVE_ADAPTIVE)[number] | undefined;
  /**
   * What servers on other accelerators call the attention that was asked for: `cutlass_mla` takes no
   * drafts, `fa3`, `flashinfer`, `flashmla` and `trtllm_mla` take chains. Default: the engine's own
   * names, which take all.
   */
  readonly attentionBackends?: AskedBackends | undefined;
}

/** What the options are checked against. */
export type TargetFacts = SourceFacts & NumberFacts;

export interface Speculation {
  readonly algorithm: DraftKind;
  readonly source: DraftSource;
  readonly shape: DraftTreeShape;
  /** Whether fewer drafts are made where they do not pay; `shape` is then the most. */
  readonly adaptive: boolean;
  readonly thresholds: AcceptThresholds;
  /** By coins beside the plain sampler's tokens only below thresholds of 1. */
  readonly verification: "drawn" | "coins";
  /** What the start tells about the options, one sentence each. */
  readonly sentences: readonly string[];
}

/** Options that say nothing without an algorithm. */
const OF_ALGORITHMS = [
  ...(["draftModelPath", "draftModelRevision"] as const),
  ...(["numSteps", "eagleTopk", "numDraftTokens"] as const),
  ...(["ngramMinMatchWindowSize", "ngramMaxMatchWindowSize"] as const),
] as const;

const ADJUSTED =
  "Speculation: draft tokens are adjusted to the steps and one more, as a chain (top-k 1) has no others";
const PATH_OF_MTP =
  "Speculation: the checkpoint has a draft layer of its own and needs no draft model; the given one is used";
const NOT_EXACT =
  "Speculation: accept thresholds below 1 accept drafts that the model would not have drawn, so sampled answers may differ from those without drafts, and by how many there are";

/**
 * @returns Frozen; undefined where no algorithm is asked for.
 * @throws {InvalidRequestError} naming the option that is wrong, with the numbers.
 * @throws {UnsupportedError} where the model, or what attends, does not go with drafts.
 */
export function resolveSpeculation(
  options: SpeculationOptions,
  target: TargetFacts,
): Speculation | undefined {
  const adaptive = oneOf("speculation.adaptive", options.adaptive, SPECULATIVE_ADAPTIVE);
  const thresholds = resolveThresholds(options);
  if (options.algorithm === undefined) {
    requireNoneWithoutAlgorithm(options, adaptive, thresholds);
    return undefined;
  }
  const given = oneOf("speculation.algorithm", options.algorithm, SPECULATIVE_ALGORITHMS)!;
  requireBackends(target);
  const source = resolveSource(given, options, target);
  const numbers = resolveNumbers(given, options, target);
  const isExact = thresholds.single === 1 && thresholds.acc === 1;
  return Object.freeze({
    algorithm: given === "NEXTN" ? "EAGLE" : given,
    source,
    shape: Object.freeze(numbers.shape),
    // By coins an answer depends on how many drafts there are, which then is not left to measured times.
    adaptive: adaptive === "on" || (adaptive !== "off" && !numbers.arePinned && isExact),
    thresholds: Object.freeze(thresholds),
    verification: isExact ? "drawn" : "coins",
    sentences: Object.freeze([
      ...(numbers.isAdjusted ? [ADJUSTED] : []),
      ...(source.kind === "model" && target.hasMtpLayer && takesMtpLayer(given)
        ? [PATH_OF_MTP]
        : []),
      ...(isExact ? [] : [NOT_EXACT]),
    ]),
  });
}

/** Options of drafts that are given where no draft is made would be ignored. */
function requireNoneWithoutAlgorithm(
  options: SpeculationOptions,
  adaptive: string | undefined,
  { single, acc }: AcceptThresholds,
): void {
  const name =
    OF_ALGORITHMS.find((own) => options[own] !== undefined) ??
    (adaptive === "on" ? "adaptive" : undefined) ??
    (single !== 1 ? "acceptThresholdSingle" : undefined) ??
    (acc !== 1 ? "acceptThresholdAcc" : undefined);
  if (name === undefined) return;
  const field = `speculation.${name}`;
  throw new InvalidRequestError(`Cannot use ${field}: no speculation.algorithm is given`, field);
}

function resolveThresholds(options: SpeculationOptions): AcceptThresholds {
  return {
    single: threshold("speculation.acceptThresholdSingle", options.acceptThresholdSingle),
    acc: threshold("speculation.acceptThresholdAcc", options.acceptThresholdAcc),
  };
}

function threshold(field: string, value = 1): number {
  if (value >= 0 && value <= 1) return value;
  throw new InvalidRequestError(`Cannot use ${field} ${value}: it must be from 0 to 1`, field);
}

function oneOf<T extends string>(
  field: string,
  value: string | undefined,
  known: readonly T[],
): T | undefined {
  const found = known.find((name) => name === value);
  if (found !== undefined || value === undefined) return found;
  throw new InvalidRequestError(
    `Cannot use ${field} ${value}: it must be one of ${known.join(", ")}`,
    field,
  );
}
