/**
 * Speculation as an engine runs with it: what its options say of this checkpoint, and what the engine
 * does of that.
 *
 * @module
 */
import { InvalidRequestError, UnsupportedError } from "../errors.ts";
import type { ModelDefinition, ModelShape } from "../models/model.ts";
import type { AskedBackends } from "../speculation/attention_rules.ts";
import { requireDraftFits } from "../speculation/draft_source.ts";
import {
  resolveSpeculation,
  type Speculation,
  type SpeculationOptions,
} from "../speculation/speculation_options.ts";
import type { EngineOptions } from "./engine_options.ts";
import { MAX_DRAFTS } from "./load/draft_limits.ts";

/** What options are decided for. */
export interface ResolvedModel extends Pick<ModelDefinition, "architecture"> {
  readonly shape: Pick<ModelShape, "contextLength" | "draftLayers" | "vocabularySize">;
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
  /** Drafts that a step makes for each sequence by a module or a model; 0 where it makes none. */
  readonly draftSteps: number;
  /** Whether fewer are verified and made where they do not pay. */
  readonly adaptiveDrafts: boolean;
}

const NONE: ResolvedDrafts = {
  speculation: undefined,
  maxDrafts: 0,
  draftSteps: 0,
  adaptiveDrafts: false,
};

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
  requireVerified(options, speculation);
  requireDraftModel(speculation, { draft, vocabularySize: shape.vocabularySize });
  const { steps, topk, draftTokens } = speculation.shape;
  const draftSteps = speculation.source.kind === "ngrams" ? 0 : steps;
  // Trees keep their shape.
  const adaptiveDrafts = speculation.adaptive && topk === 1;
  return { speculation, maxDrafts: draftTokens - 1, draftSteps, adaptiveDrafts };
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
    const why = `its architecture is ${architecture}; EAGLE drafts by the checkpoint's own layer or by a head, and exported layers are not supported yet`;
    throw unsupported("draftModelPath", source.path, why);
  }
  const facts = { architecture, vocabularySize: shape.vocabularySize };
  requireDraftFits(algorithm, facts, vocabularySize);
}

/** Steps verify chains. */
function requireVerified({ adaptive }: SpeculationOptions, { shape, source }: Speculation): void {
  if (shape.topk > 1 && adaptive === "on") {
    const why =
      "the number of drafts follows acceptance where they follow each other, with a top-k of 1";
    throw unsupported("adaptive", adaptive, why);
  }
  if (shape.topk > 1) {
    throw unsupported(
      "eagleTopk",
      shape.topk,
      "only 1 is supported yet, drafts that follow each other",
    );
  }
  if (source.kind !== "ngrams" && shape.steps > MAX_DRAFTS) {
    const what = source.kind === "model" ? "model" : "layer";
    throw unsupported("numSteps", shape.steps, `a draft ${what} takes ${MAX_DRAFTS} at most`);
  }
}

function unsupported(
  name: keyof SpeculationOptions,
  value: string | number,
  why: string,
): UnsupportedError {
  const field = `speculation.${name}`;
  return new UnsupportedError(`${field} ${value}`, why, { field });
}
