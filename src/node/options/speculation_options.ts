/**
 * `--speculative-*`: where drafts come from, and how many; and what that is to the engine.
 *
 * @module
 */

import {
  MAX_DRAFT_STEPS,
  MAX_DRAFT_TOKENS,
  MAX_DRAFT_TOPK,
  MAX_MATCH_WINDOW,
  SPECULATIVE_ADAPTIVE,
  SPECULATIVE_ALGORITHMS,
} from "../../speculation/option_values.ts";
import type { SpeculationOptions } from "../../speculation/speculation_options.ts";
import type { AttentionBackendOptions } from "./attention_backend.ts";
import type { OptionTable, OptionValues } from "./option_parser.ts";

const group = "Speculation";

export const SPECULATION_OPTIONS = {
  speculativeAlgorithm: {
    flags: ["--speculative-algorithm"],
    kind: "string",
    choices: SPECULATIVE_ALGORITHMS,
    value: "NAME",
    defaultText: "none",
    help:
      "where drafts of the next tokens come from, which a step verifies together, so that answers stay " +
      "the same: EAGLE or NEXTN (a layer of the checkpoint, or a head that was trained for it), EAGLE3 " +
      "(a head), STANDALONE (a smaller model of the same tokens), NGRAM (the request's own text)",
    group,
  },
  speculativeDraftModelPath: {
    flags: ["--speculative-draft-model-path", "--speculative-draft-model"],
    kind: "string",
    value: "MODEL",
    help: "folder or hub id of the head or model that drafts",
    group,
  },
  speculativeDraftModelRevision: {
    flags: ["--speculative-draft-model-revision"],
    kind: "string",
    value: "REVISION",
    help: "branch, tag or commit of that model",
    group,
  },
  speculativeNumSteps: {
    flags: ["--speculative-num-steps"],
    kind: "integer",
    min: 1,
    max: MAX_DRAFT_STEPS,
    defaultText:
      "3 with a layer of the checkpoint or a model, 5 with a head (3 for DeepSeek's models and gpt-oss), " +
      "11 with NGRAM",
    help: "drafts that follow each other; with the next two options: all three are given, or none",
    group,
  },
  speculativeEagleTopk: {
    flags: ["--speculative-eagle-topk"],
    kind: "integer",
    min: 1,
    max: MAX_DRAFT_TOPK,
    defaultText: "1",
    help:
      "candidates behind each of the best drafts of a step; above 1 they are a tree, of 16 steps and 64 " +
      "draft tokens at most",
    group,
  },
  speculativeNumDraftTokens: {
    flags: ["--speculative-num-draft-tokens"],
    kind: "integer",
    min: 2,
    max: MAX_DRAFT_TOKENS,
    defaultText:
      "4 with a layer of the checkpoint or a model, 6 with a head (4 for DeepSeek's models and gpt-oss), " +
      "12 with NGRAM",
    help:
      "rows of a request that a step verifies at once, its newest token among them; NGRAM takes it " +
      "without the other two",
    group,
  },
  speculativeAcceptThresholdSingle: {
    flags: ["--speculative-accept-threshold-single"],
    kind: "number",
    value: "X",
    min: 0,
    max: 1,
    default: 1,
    help:
      "probability of a token from which a draft of it is accepted whatever is drawn; below 1 sampled " +
      "answers may differ from those without drafts, greedy ones never",
    group,
  },
  speculativeAcceptThresholdAcc: {
    flags: ["--speculative-accept-threshold-acc"],
    kind: "number",
    value: "X",
    min: 0,
    max: 1,
    default: 1,
    help:
      "drafts are accepted as if their tokens were 1/X times as likely; below 1 sampled answers may " +
      "differ as well",
    group,
  },
  speculativeNgramMinMatchWindowSize: {
    flags: ["--speculative-ngram-min-match-window-size"],
    kind: "integer",
    min: 1,
    max: MAX_MATCH_WINDOW,
    defaultText: "2",
    help: "tokens that have to agree before NGRAM drafts what followed them",
    group,
  },
  speculativeNgramMaxMatchWindowSize: {
    flags: ["--speculative-ngram-max-match-window-size"],
    kind: "integer",
    min: 1,
    max: MAX_MATCH_WINDOW,
    defaultText: "12",
    help: "tokens that NGRAM compares at most",
    group,
  },
  speculativeAdaptive: {
    flags: ["--speculative-adaptive"],
    kind: "string",
    choices: SPECULATIVE_ADAPTIVE,
    default: "auto",
    help:
      "whether steps have fewer drafts, or none, where they do not pay: auto does so unless numbers are " +
      "given, which are the most with on, or a threshold is below 1",
    group,
  },
} as const satisfies OptionTable;

type SpeculativeOptions = OptionValues<typeof SPECULATION_OPTIONS>;

/** What the options are to the library. The engine checks them, and names what is wrong. */
export function speculationOf(
  options: SpeculativeOptions & AttentionBackendOptions,
): SpeculationOptions {
  const { attentionBackend = "auto" } = options;
  return {
    algorithm: options.speculativeAlgorithm,
    draftModelPath: options.speculativeDraftModelPath,
    draftModelRevision: options.speculativeDraftModelRevision,
    numSteps: options.speculativeNumSteps,
    eagleTopk: options.speculativeEagleTopk,
    numDraftTokens: options.speculativeNumDraftTokens,
    acceptThresholdSingle: options.speculativeAcceptThresholdSingle,
    acceptThresholdAcc: options.speculativeAcceptThresholdAcc,
    ngramMinMatchWindowSize: options.speculativeNgramMinMatchWindowSize,
    ngramMaxMatchWindowSize: options.speculativeNgramMaxMatchWindowSize,
    adaptive: options.speculativeAdaptive,
    attentionBackends: {
      prefillAttentionBackend: options.prefillAttentionBackend ?? attentionBackend,
      decodeAttentionBackend: options.decodeAttentionBackend ?? attentionBackend,
    },
  };
}

/** Key of the row of a field that the library knows as `speculation.numSteps`. */
export function speculativeKey(field: string): string {
  return field.replace(
    /^speculation\.(.)/,
    (_, first: string) => `speculative${first.toUpperCase()}`,
  );
}
