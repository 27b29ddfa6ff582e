/**
 * The parts that an engine is put together from, as its options and its model want them.
 *
 * @module
 */
import { PagePool } from "../cache/page_pool.ts";
import type { PrefixStore } from "../cache/prefix_store.ts";
import { RadixCache } from "../cache/radix_cache.ts";
import type { WeightSource } from "../checkpoint/source.ts";
import { UnsupportedError } from "../errors.ts";
import type { ModelDescription } from "../generation.ts";
import { RECORDED_PASSES } from "../parallel/experts/expert_options.ts";
import { NgramProposer } from "../speculation/ngram_proposer.ts";
import { ObservedCosts } from "../speculation/observed_costs.ts";
import type { StepCosts, StepSize } from "../speculation/step_costs.ts";
import type { Drafting } from "./create_sequence.ts";
import { adaptiveChoice } from "./drafts/adaptive_choice.ts";
import { measureCosts } from "./drafts/measure_costs.ts";
import type { EngineOptions } from "./engine_options.ts";
import { BalanceWatch } from "./experts/balance_watch.ts";
import { ExpertBalancer, requireMovable } from "./experts/expert_balancer.ts";
import { ExpertRecorder } from "./experts/expert_recorder.ts";
import type { GrammarService } from "./grammar/grammar_service.ts";
import { localGrammarService } from "./grammar/local_grammar_service.ts";
import type { Spelling } from "./grammar/sequence_grammar.ts";
import { ImageReader } from "./images/image_reader.ts";
import { localImageService } from "./images/local_image_service.ts";
import type { ImageProcessor } from "./images/prepared_image.ts";
import type { LoadOptions } from "./load/load_options.ts";
import { maxPrefillKeys } from "./load/prefill_workspace.ts";
import type { RecoverableModel } from "./load/recovery.ts";
import { type TextModel, thinkingVariables } from "./load/text_model.ts";
import { PrefixTransfers, type PrefixTransfersOptions } from "./prefix/prefix_transfers.ts";
import type { EngineModel } from "./ranks/engine_model.ts";
import type { ResolvedOptions } from "./resolve_options.ts";
import { RetractionMemory } from "./schedule/retraction_memory.ts";
import { Scheduler } from "./schedule/scheduler.ts";
import { ToldTokens } from "./schedule/sequence_drafts.ts";
import { SequencePages } from "./schedule/sequence_pages.ts";
import type { StepLoop } from "./step/step_loop.ts";
import type { TextService } from "./text/text_service.ts";
import { TravellingPages } from "./transfer/travelling_pages.ts";

/** What an engine is made of, beside its model. */
export interface EngineParts {
  readonly text: TextModel;
  readonly texts: TextService;
  readonly store: PrefixStore | undefined;
  /** How images are prepared; absent where the model reads none. */
  readonly processor: ImageProcessor | undefined;
  /** What its steps take; absent where the number of drafts follows nothing. */
  readonly costs: StepCosts | undefined;
}

export function describeModel(
  source: WeightSource,
  { definition, options, memoryBudget }: EngineModel,
  { text, texts }: Pick<EngineParts, "text" | "texts">,
): ModelDescription {
  const { architecture, shape } = definition;
  return {
    path: source.name,
    architecture,
    ...text.description,
    thinkingVariables: thinkingVariables(texts.templateVariables),
    contextLength: Math.min(options.contextLength, memoryBudget.cacheTokens),
    vocabularySize: shape.vocabularySize,
    hiddenSize: shape.hiddenSize,
    readsImages: definition.vision !== undefined,
    storesPrefixes: options.prefixStore !== undefined,
  };
}

export function openImages(
  processor: ImageProcessor | undefined,
  loaded: RecoverableModel,
  { decodeImage: decode, imageService = localImageService }: EngineOptions,
): ImageReader | undefined {
  const { imageAlpha: alpha, imageCacheMemory: cacheBytes } = loaded.current.options;
  if (processor === undefined) return undefined;
  const device = {
    runner: () => loaded.current.vision!,
    isLost: () => loaded.isLost(),
    settled: () => loaded.settled(),
    progressed: () => loaded.progressed(),
  };
  const service = imageService({ alpha, decode });
  return new ImageReader({ processor, device, service, cacheBytes });
}

export function openGrammars(
  { grammarService }: EngineOptions,
  { json }: ResolvedOptions,
  { text, model }: { readonly text: TextModel; readonly model: ModelDescription },
): GrammarService {
  const { vocabularySize } = model;
  return (grammarService ?? localGrammarService)({
    tokens: text.tokenizer.vocabulary,
    endTokens: [...text.eosTokenIds].filter((id) => id < vocabularySize),
    vocabularySize,
    json,
  });
}

export function openPages(
  { options, memoryBudget, promptsDiffer }: EngineModel,
  retractionMemory: RetractionMemory | undefined,
): SequencePages {
  const { pageSize, prefixCache } = options;
  return new SequencePages(new PagePool(memoryBudget.cacheTokens / pageSize, pageSize), {
    radix: prefixCache ? new RadixCache({ pageSize }) : undefined,
    promptsDiffer,
    retractionMemory,
  });
}

/** Keeps pages of retracted sequences; undefined where no option asks for it. */
export function openRetractionMemory(
  { carriers }: RecoverableModel,
  { retractionMemory }: ResolvedOptions,
): RetractionMemory | undefined {
  return carriers && new RetractionMemory(retractionMemory, carriers.retracted);
}

/** Brings prefixes to their store and back; undefined without one. */
export function openTransfers(
  store: PrefixStore | undefined,
  model: RecoverableModel,
  given: Pick<PrefixTransfersOptions, "pages" | "isIdle" | "wake">,
): PrefixTransfers | undefined {
  if (store === undefined) return undefined;
  const { prefixStore } = model.current.options;
  return new PrefixTransfers({ ...prefixStore!, ...given, store, codec: model.carriers!.stored });
}

/** @param costs What steps take; absent where the number of drafts follows nothing. */
export function openScheduler(
  { options, runner }: EngineModel,
  pages: SequencePages,
  {
    contextLength,
    costs,
  }: Pick<ModelDescription, "contextLength"> & { readonly costs: StepCosts | undefined },
): Scheduler {
  const { pageCount, pageSize } = pages.pool;
  return new Scheduler(pages, {
    ...options,
    draftChoice: costs && adaptiveChoice(costs, { most: options.draftSteps, pageCount, pageSize }),
    policy: options.schedulePolicy,
    conservativeness: options.scheduleConservativeness,
    maxPrefillKeys: maxPrefillKeys(contextLength, options.maxRows),
    maxScoredRows: runner.maxScoredRows,
    contextLength,
  });
}

/** What has pages travel between engines, where an option asks for it. */
export function openTravelling(
  { transfersPages, reservedDecodeTokens }: ResolvedOptions,
  parts: {
    readonly carriers: RecoverableModel["carriers"];
    readonly scheduler: Scheduler;
    readonly pages: SequencePages;
    readonly loop: () => StepLoop;
  },
): TravellingPages | undefined {
  if (!transfersPages) return undefined;
  const { carriers, scheduler, pages, loop } = parts;
  return new TravellingPages({
    codec: carriers!.stored,
    scheduler,
    pages,
    reservedTokens: reservedDecodeTokens,
    isIdle: () => !loop().isRunning,
    // One that has ended begins again: no sequence that waits for pages has it going.
    wake: () => loop().start(),
  });
}

/** What the number of drafts follows, where it follows anything. */
export async function costsOf(
  loaded: EngineModel,
  { stepCosts }: Pick<LoadOptions, "stepCosts">,
): Promise<StepCosts | undefined> {
  if (!loaded.options.adaptiveDrafts) return undefined;
  if (stepCosts !== undefined) return stepCosts;
  const { filledSteps } = loaded.runner;
  const computed = filledSteps && ((step: StepSize) => filledSteps.of(step)?.rows ?? step.rows);
  const measured = { ...(await measureCosts(loaded)), computed };
  return loaded.options.draftSteps > 0 ? measured : new ObservedCosts(measured);
}

/** What sequences take of the engine's options. */
export function sequenceOptionsOf(
  resolved: Pick<ResolvedOptions, "speculation" | "maxDrafts" | "tree" | "jsonJump">,
) {
  return { drafting: draftingOf(resolved), jsonJump: resolved.jsonJump };
}

/** How sequences come by drafts, where the engine is to speculate. */
function draftingOf({
  speculation,
  maxDrafts,
  tree,
}: Pick<ResolvedOptions, "speculation" | "maxDrafts" | "tree">): Drafting | undefined {
  if (speculation === undefined) return undefined;
  const { source, verification } = speculation;
  const createDrafter = () =>
    source.kind === "ngrams" ? new NgramProposer(source.window) : undefined;
  const decide = verification === "coins";
  const treeDepth = tree?.steps;
  return { createDrafter, most: maxDrafts, told: new ToldTokens(), decide, treeDepth };
}

/** Spells text that a grammar forces as the tokenizer would. A sequence that runs waits for it. */
export function spellingOf({ tokenizer }: TextModel, texts: TextService): Spelling {
  return {
    encode: (text) => texts.run({ type: "encode", text }, { isUrgent: true }).result,
    decode: (tokens) => tokenizer.decode(tokens),
    isSpecial: (token) => tokenizer.vocabulary.isSpecial(token),
  };
}

/** What counts the choices of experts, what moves them by that, and what tells how even they are. */
export interface ExpertParts {
  readonly experts: ExpertRecorder;
  /** Absent where experts stay. */
  readonly balancer: ExpertBalancer | undefined;
  /** Absent where the caller does not ask for it. */
  readonly balanceWatch: BalanceWatch | undefined;
}

/**
 * @throws {InvalidRequestError} when experts are to be moved that cannot be.
 * @throws {UnsupportedError} when the balance of a model is asked for that has none.
 */
export function openExperts(
  loaded: EngineModel,
  model: Pick<RecoverableModel, "current">,
  { experts: options = {}, onRebalance, onExpertBalance }: EngineOptions,
): ExpertParts {
  const { shape, facts } = loaded.definition;
  const { recordedPasses = RECORDED_PASSES, rebalance, balance: algorithm = "auto" } = options;
  const { nodes = 1, recorderMode } = options;
  const layout = () => model.current.expertLayout;
  const sizes = { layers: shape.layers, experts: facts.experts?.routed, layout };
  const experts = new ExpertRecorder({ ...sizes, passes: recordedPasses, mode: recorderMode });
  if (onExpertBalance !== undefined && sizes.experts === undefined) {
    throw new UnsupportedError("a balance of experts", "the model has none");
  }
  const balanceWatch = onExpertBalance && new BalanceWatch(layout, onExpertBalance);
  if (rebalance === undefined) return { experts, balancer: undefined, balanceWatch };
  requireMovable(loaded.expertLayout);
  const recorder = new ExpertRecorder({ ...sizes, passes: rebalance.everySteps });
  const { groups } = facts.experts!;
  const how = { algorithm, groups, nodes, onRebalance };
  const balancer = new ExpertBalancer({ ...rebalance, recorder, ...how });
  return { experts, balancer, balanceWatch };
}
