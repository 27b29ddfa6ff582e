/**
 * Speculation as an engine runs with it: what its options say of this checkpoint, and what the engine
 * does of that.
 *
 * @module
 */
import { InvalidRequestError, UnsupportedError } from "../errors.ts";
import { MAX_TREE_DEPTH, MAX_TREE_NODES } from "../layers/draft_tree.ts";
import type { DraftTreeSizes } from "../layers/tree_tensors.ts";
import type { ModelDefinition, ModelShape } from "../models/model.ts";
import type { AskedBackends } from "../speculation/attention_rules.ts";
import { requireDraftFits } from "../speculation/draft_source.ts";
import {
  resolveSpeculation,
  type Speculation,
  type SpeculationOptions,
} from "../speculation/speculation_options.ts";
import type { AcceptThresholds } from "../speculation/verify.ts";
import { MAX_DRAFTS } from "./draft_model/draft_limits.ts";
import type { EngineOptions } from "./engine_options.ts";

/** Numbers of nodes that a path has a byte for, all beams of all steps together. */
const MAX_PATH_NODES = 256;

/** What options are decided for. */
export interface ResolvedModel extends Pick<ModelDefinition, "architecture"> {
  readonly shape: Pick<
    ModelShape,
    "contextLength" | "draftLayers" | "vocabularySize" | "partedRope"
  >;
  /** The opened model that drafts for it. */
  readonly draft?: DraftDefinition | undefined;
}

type DraftDefinition = Pick<ModelDefinition, "architecture"> & {
  readonly shape: Pick<ModelShape, "vocabularySize">;
};

/** What the sizes of a step follow from. */
export interface ResolvedDrafts {
  /** Frozen; undefined where nothing drafts. */
  readonly speculation: Speculation | undefined;
  /** Drafts of a sequence that one step verifies at most; 0 without speculation. */
  readonly maxDrafts: number;
  /**
   * Drafts that a step makes for each sequence by a module or a model, one behind the other; 0 where it
   * makes none.
   */
  readonly draftSteps: number;
  /** Whether fewer are verified and made where they do not pay. */
  readonly adaptiveDrafts: boolean;
  /** The trees that they are; undefined where they are chains. */
  readonly tree: DraftTreeSizes | undefined;
}

const NONE: ResolvedDrafts = {
  speculation: undefined,
  maxDrafts: 0,
  draftSteps: 0,
  adaptiveDrafts: false,
  tree: undefined,
};

/** Thresholds that coins go by; undefined where drafts are compared with what is drawn. */
export function coinThresholds({
  speculation,
}: Pick<ResolvedDrafts, "speculation">): AcceptThresholds | undefined {
  return speculation?.verification === "coins" ? speculation.thresholds : undefined;
}

/**
 * @param attention The engine's own names, which count where the options have no others.
 * @throws {InvalidRequestError} naming the option that is wrong, as `speculation.numSteps`.
 * @throws {UnsupportedError} naming an option that engines do not follow so far.
 */
export function resolveDrafts(
  { speculation: given, draftModel }: Pick<EngineOptions, "speculation" | "draftModel">,
  { architecture, shape, draft }: ResolvedModel,
  attention: AskedBackends,
): ResolvedDrafts {
  const options = withDraftModel(given, draftModel?.name);
  if (options === undefined) return NONE;
  const speculation = resolveSpeculation(options, {
    architecture,
    // A checkpoint with several is refused by their number, as the draft module is loaded.
    hasMtpLayer: shape.draftLayers > 0,
    ...(options.attentionBackends ?? attention),
  });
  if (speculation === undefined) return NONE;
  // Of drafts of n-grams the host knows every position, parts and all, before a step has rows of them.
  if (shape.partedRope !== undefined && speculation.source.kind !== "ngrams") {
    const why = `positions of ${architecture} have parts, which no step finds for drafts; NGRAM drafts for it`;
    throw unsupported("algorithm", options.algorithm ?? "", why);
  }
  requireVerified(options, speculation);
  requireDraftModel(speculation, { draft, vocabularySize: shape.vocabularySize });
  const { steps, topk, draftTokens } = speculation.shape;
  const draftSteps = speculation.source.kind === "ngrams" ? 0 : steps;
  const tree = topk > 1 ? { steps, topk, draftTokens } : undefined;
  // Trees keep their shape.
  const adaptiveDrafts = speculation.adaptive && tree === undefined;
  return { speculation, maxDrafts: draftTokens - 1, draftSteps, tree, adaptiveDrafts };
}

/** An opened model is a draft model's path, by its name. */
function withDraftModel(
  options: SpeculationOptions | undefined,
  name: string | undefined,
): SpeculationOptions | undefined {
  if (name === undefined) return options;
  return { ...options, draftModelPath: options?.draftModelPath ?? name };
}

function requireDraftModel(
  { algorithm, source }: Speculation,
  given: { readonly draft: DraftDefinition | undefined; readonly vocabularySize: number },
): void {
  if (source.kind !== "model") return;
  const { draft, vocabularySize } = given;
  if (draft === undefined) {
    const field = "speculation.draftModelPath";
    throw new InvalidRequestError(
      `Cannot use ${field} ${source.path}: an engine takes the opened model, as draftModel`,
      field,
    );
  }
  const { architecture, shape } = draft;
  if (algorithm === "EAGLE" && !architecture.endsWith("Eagle")) {
    const why = `its architecture is ${architecture}; EAGLE drafts by a layer of the checkpoint, in it or exported (NextN), or by a head`;
    throw unsupported("draftModelPath", source.path, why);
  }
  const facts = { architecture, vocabularySize: shape.vocabularySize };
  requireDraftFits(algorithm, facts, vocabularySize);
}

/** Steps verify trees whose nodes rows can name. */
function requireVerified({ adaptive }: SpeculationOptions, { shape, source }: Speculation): void {
  if (shape.topk > 1 && adaptive === "on") {
    const why =
      "the number of drafts follows acceptance where they follow each other, with a top-k of 1";
    throw unsupported("adaptive", adaptive, why);
  }
  if (shape.topk > 1) requireTree(shape);
  if (source.kind !== "ngrams" && shape.steps > MAX_DRAFTS) {
    const what = source.kind === "model" ? "model" : "layer";
    throw unsupported("numSteps", shape.steps, `a draft ${what} takes ${MAX_DRAFTS} at most`);
  }
}

/** @throws {UnsupportedError} where a row could not say which nodes it sees. */
function requireTree({ steps, topk, draftTokens }: DraftTreeSizes): void {
  if (steps > MAX_TREE_DEPTH) {
    throw unsupported("numSteps", steps, `with a top-k above 1, ${MAX_TREE_DEPTH} are the most`);
  }
  if (draftTokens > MAX_TREE_NODES) {
    const why = `with a top-k above 1, ${MAX_TREE_NODES} are the most`;
    throw unsupported("numDraftTokens", draftTokens, why);
  }
  if (steps * topk <= MAX_PATH_NODES) return;
  const most = Math.floor(MAX_PATH_NODES / steps);
  throw unsupported("eagleTopk", topk, `with ${steps} steps, ${most} are the most`);
}

function unsupported(
  name: keyof SpeculationOptions,
  value: string | number,
  why: string,
): UnsupportedError {
  const field = `speculation.${name}`;
  return new UnsupportedError(`${field} ${value}`, why, { field });
}
