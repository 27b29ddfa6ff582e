/**
 * Where drafts come from: a layer of the checkpoint, a model of their own, or the text itself.
 *
 * @module
 */

import { InvalidRequestError } from "../errors.ts";
import { DEFAULT_MATCH_WINDOW, type MatchWindow, requireWindow } from "./ngram_proposer.ts";
import type { SPECULATIVE_ALGORITHMS } from "./option_values.ts";

export type SpeculativeAlgorithm = (typeof SPECULATIVE_ALGORITHMS)[number];

/** Where drafts come from. */
export type DraftSource =
  | { readonly kind: "mtp layer" }
  | {
      readonly kind: "model";
      readonly path: string;
      readonly revision: string | undefined;
    }
  | { readonly kind: "ngrams"; readonly window: MatchWindow };

/** What says where drafts come from. */
export interface DraftSourceOptions {
  /**
   * Folder or hub id of a draft model, for commands that open it. An engine takes the opened model, as
   * its option `draftModel`, and this name in messages.
   */
  readonly draftModelPath?: string | undefined;
  /** Branch, tag or commit of that model. */
  readonly draftModelRevision?: string | undefined;
  /** Tokens that have to agree, at least, before n-grams draft what followed. Default 2. */
  readonly ngramMinMatchWindowSize?: number | undefined;
  /** Tokens that n-grams compare at most, up to 64. Default 12. */
  readonly ngramMaxMatchWindowSize?: number | undefined;
}

/** What decides about the source beside the options. */
export interface SourceFacts {
  readonly architecture: string;
  /** Whether the checkpoint holds a layer that predicts the token after the next. */
  readonly hasMtpLayer: boolean;
}

/**
 * @throws {InvalidRequestError} where the draft has no place to come from, or an option is given that
 *   the algorithm has no use for.
 */
export function resolveSource(
  algorithm: SpeculativeAlgorithm,
  options: DraftSourceOptions,
  target: SourceFacts,
): DraftSource {
  const { draftModelPath: path, draftModelRevision: revision } = options;
  const noUse = `speculation.algorithm ${algorithm} has no use for it`;
  if (algorithm === "NGRAM") {
    refuseGiven(options, ["draftModelPath", "draftModelRevision"], noUse);
    return ngramSource(options);
  }
  refuseGiven(options, WINDOW_OPTIONS, noUse);
  if (path !== undefined) return Object.freeze({ kind: "model", path, revision });
  refuseGiven(options, ["draftModelRevision"], "no speculation.draftModelPath is given");
  if (takesMtpLayer(algorithm) && target.hasMtpLayer) return Object.freeze({ kind: "mtp layer" });
  const missing = takesMtpLayer(algorithm)
    ? `this checkpoint of ${target.architecture} has no draft layer, and no speculation.draftModelPath is given`
    : "it needs speculation.draftModelPath";
  throw new InvalidRequestError(
    `Cannot use speculation.algorithm ${algorithm}: ${missing}`,
    "speculation.algorithm",
  );
}

const WINDOW_OPTIONS = ["ngramMinMatchWindowSize", "ngramMaxMatchWindowSize"] as const;

function ngramSource(options: DraftSourceOptions): DraftSource {
  const { ngramMaxMatchWindowSize: max = DEFAULT_MATCH_WINDOW.max } = options;
  const { ngramMinMatchWindowSize: min = Math.min(DEFAULT_MATCH_WINDOW.min, max) } = options;
  const window = { min, max };
  requireWindow(window);
  return Object.freeze({ kind: "ngrams", window: Object.freeze(window) });
}

function refuseGiven(
  options: DraftSourceOptions,
  names: readonly (keyof DraftSourceOptions)[],
  why: string,
): void {
  const name = names.find((own) => options[own] !== undefined);
  if (name === undefined) return;
  const field = `speculation.${name}`;
  throw new InvalidRequestError(`Cannot use ${field}: ${why}`, field);
}

/** Whether the algorithm's drafts may come from a layer of the checkpoint. */
export function takesMtpLayer(algorithm: SpeculativeAlgorithm): boolean {
  return algorithm === "EAGLE" || algorithm === "NEXTN";
}

/** Algorithms that differ in what they draft with. */
export type DraftKind = Exclude<SpeculativeAlgorithm, "NEXTN">;

/** What is known of a separate draft once its config.json is read. */
export interface DraftFacts {
  /** The name in its `architectures`. */
  readonly architecture: string;
  /** Of the tokens that it reads; an EAGLE-3 head may give fewer. */
  readonly vocabularySize: number;
}

/**
 * @param vocabularySize The target's.
 * @throws {InvalidRequestError} where the draft's tokens are others, or it is of another kind than the
 *   algorithm's.
 */
export function requireDraftFits(
  algorithm: DraftKind,
  draft: DraftFacts,
  vocabularySize: number,
): void {
  const field = "speculation.draftModelPath";
  if (kindOfDraft(draft.architecture) !== algorithm && !isMtpDraft(algorithm, draft)) {
    throw new InvalidRequestError(
      `Cannot use ${field} with speculation.algorithm ${algorithm}: its architecture is ${draft.architecture}`,
      field,
    );
  }
  if (draft.vocabularySize === vocabularySize) return;
  throw new InvalidRequestError(
    `Cannot use ${field}: the draft has a vocabulary of ${draft.vocabularySize} tokens, the model one of ${vocabularySize}`,
    field,
  );
}

/** What has a model of that architecture draft. */
export function kindOfDraft(architecture: string): DraftKind {
  if (/^Eagle3|Eagle3$/.test(architecture)) return "EAGLE3";
  return /^Eagle|Eagle$/.test(architecture) ? "EAGLE" : "STANDALONE";
}

/** An exported layer of a checkpoint, under the name of the whole model or one of its own. */
function isMtpDraft(algorithm: DraftKind, { architecture }: DraftFacts): boolean {
  return algorithm === "EAGLE" && /NextN$|MTP$|^DeepseekV3ForCausalLM$/.test(architecture);
}
