/**
 * The engine: requests in, chunks out, one step after another in between.
 *
 * @module
 */
import type { SelfTestReport } from "../../kernels/self_test.ts";
import { ContentIds } from "../cache/content_id.ts";
import type { SharedLayout } from "../cache/page_form.ts";
import { Checkpoint } from "../checkpoint/checkpoint.ts";
import type { WeightSource } from "../checkpoint/source.ts";
import { DeviceError } from "../errors.ts";
import type { ExpertRecord, ExpertRecording } from "../expert_record.ts";
import type {
  DetokenizeOptions,
  EngineStatus,
  GenerationChunk,
  GenerationEngine,
  ModelDescription,
  TokenizeRequest,
} from "../generation.ts";
import type { CompiledPipeline } from "../gpu/pipeline_cache.ts";
import type { Unshared } from "../layers/ranks/unshared.ts";
import type { QuantizationError } from "../layers/weights/quantizing_upload.ts";
import type { CacheTree, CacheTreeOptions, FlushOptions } from "../prefix_cache.ts";
import type { Profile, ProfileOptions } from "../profile.ts";
import { type LocalRequest, prepareSequence, type SequenceSetting } from "./create_sequence.ts";
import { withExportedLayer } from "./draft_model/exported_layer.ts";
import { requireSameTokens } from "./draft_model/same_tokens.ts";
import type { EngineOptions } from "./engine_options.ts";
import {
  costsOf,
  describeModel,
  type EngineParts,
  type ExpertParts,
  openExperts,
  openGrammars,
  openImages,
  openPages,
  openRetractionMemory,
  openScheduler,
  openTransfers,
  openTravelling,
  sequenceOptionsOf,
  spellingOf,
} from "./engine_parts.ts";
import { engineStatus } from "./engine_status.ts";
import { constraintOf } from "./grammar/constraint.ts";
import type { GrammarService } from "./grammar/grammar_service.ts";
import { loadImageProcessor } from "./images/image_processor.ts";
import { LiveSequences } from "./live_sequences.ts";
import type { LoadOptions } from "./load/load_options.ts";
import type { MemoryBudget } from "./load/memory_budget.ts";
import { RecoverableModel, requireWaits } from "./load/recovery.ts";
import { loadText, type TextModel } from "./load/text_model.ts";
import { drawCacheTree } from "./prefix/cache_tree.ts";
import { openPrefixStore } from "./prefix/prefix_options.ts";
import type { PrefixTransfers } from "./prefix/prefix_transfers.ts";
import {
  type PendingPrompt,
  type Prompt,
  type PromptOptions,
  PromptReader,
  requireTokens,
  tokenize,
} from "./prompt.ts";
import type { EngineModel } from "./ranks/engine_model.ts";
import { loadRanks, type RankLoading } from "./ranks/rank_group.ts";
import { seeds } from "./sample/seeds.ts";
import { abortError, ChunkStream } from "./schedule/chunk_stream.ts";
import type { Scheduler } from "./schedule/scheduler.ts";
import type { Sequence } from "./schedule/sequence.ts";
import type { SequencePages } from "./schedule/sequence_pages.ts";
import { SequenceStarter } from "./start_sequence.ts";
import { Profiler } from "./step/profiler.ts";
import { StepLoop } from "./step/step_loop.ts";
import { localTextService } from "./text/local_text_service.ts";
import { finished } from "./text/text_service.ts";
import type { TravellingPages } from "./transfer/travelling_pages.ts";
import { UnreadRequests } from "./unread_requests.ts";

export type { LocalRequest };

type OwnOptions = Pick<LoadOptions, "stepCosts" | "communicator">;
type LoadableOptions = EngineOptions & RankLoading & OwnOptions;

/** Bytes of tokens that are turned into text at once, wherever texts are read. */
const SHORT_TEXT_BYTES = 2 ** 18;

export class Engine implements GenerationEngine {
  readonly model: ModelDescription;
  /** Where the memory went. */
  readonly memoryPlan: MemoryBudget;
  readonly #loaded: RecoverableModel;
  readonly #text: TextModel;
  readonly #pages: SequencePages;
  readonly #scheduler: Scheduler;
  /** Absent without a store of prefixes. */
  readonly #prefixes: PrefixTransfers | undefined;
  /** Absent where no pages travel between engines. */
  readonly #travelling: TravellingPages | undefined;
  readonly #profiler: Profiler;
  readonly #experts: ExpertParts;
  readonly #prompt: PromptOptions;
  readonly #prompts: PromptReader;
  /** Requests whose prompts are being tokenized. */
  readonly #unread = new UnreadRequests();
  /** What new sequences are made with. */
  readonly #sequences: SequenceSetting;
  readonly #grammars: GrammarService;
  readonly #live: LiveSequences;
  readonly #loop: StepLoop;
  readonly #starter: SequenceStarter;
  /** Why no request can be served any more. */
  #failure: Error | undefined;

  protected constructor(
    source: WeightSource,
    loaded: EngineModel,
    { text, texts, store, costs, processor, ...options }: EngineOptions & EngineParts,
  ) {
    const { options: resolved, memoryBudget } = loaded;
    const onLost = (loss: Error) =>
      this.#loaded.isRecovering ? this.#loop.start() : this.#fail(loss);
    this.#loaded = new RecoverableModel(loaded, { source, options, onLost });
    this.#text = text;
    this.memoryPlan = memoryBudget;
    this.model = describeModel(source, loaded, { text, texts });
    this.#grammars = openGrammars(options, resolved, { text, model: this.model });
    const { allowAutoTruncate } = options;
    const contentIds = new ContentIds();
    const images = openImages(processor, this.#loaded, options);
    this.#prompt = { ...text, ...this.model, texts, contentIds, images, allowAutoTruncate };
    this.#prompts = new PromptReader(this.#prompt);
    const retractionMemory = openRetractionMemory(this.#loaded, resolved);
    this.#pages = openPages(loaded, retractionMemory);
    this.#scheduler = openScheduler(loaded, this.#pages, { ...this.model, costs });
    this.#live = new LiveSequences(resolved);
    const [scheduler, pages] = [this.#scheduler, this.#pages];
    const { carriers } = this.#loaded;
    const travelParts = { carriers, scheduler, pages, loop: () => this.#loop };
    this.#travelling = openTravelling(resolved, travelParts);
    this.#prefixes = openTransfers(store, this.#loaded, {
      pages: this.#pages,
      isIdle: () => !this.#loop.isRunning,
      wake: () => this.#loop.wake(),
    });
    this.#experts = openExperts(loaded, this.#loaded, options);
    this.#profiler = new Profiler(() => this.#loaded.current.runner);
    this.#sequences = {
      text,
      spelling: spellingOf(text, texts),
      model: this.model,
      allowAutoTruncate,
      profiler: this.#profiler,
      nextSeed: seeds(options.randomSeed),
      onMaskKnown: () => this.#loop.wake(),
      ...sequenceOptionsOf(resolved),
    };
    this.#loop = new StepLoop({
      model: this.#loaded,
      scheduler: this.#scheduler,
      pages: this.#pages,
      profiler: this.#profiler,
      retractionMemory,
      prefixes: this.#prefixes,
      travelling: this.#travelling,
      told: this.#sequences.drafting?.told,
      costs,
      ...this.#experts,
      onStep: options.onStep,
      onFailure: (error) => this.#fail(error),
    });
    this.#starter = this.#openStarter();
  }

  #openStarter(): SequenceStarter {
    return new SequenceStarter({
      grammars: this.#grammars,
      prefixes: this.#prefixes,
      travelling: this.#travelling,
      scheduler: this.#scheduler,
      live: this.#live,
      loop: this.#loop,
      failure: () => this.#failure,
    });
  }

  /**
   * Reads a checkpoint onto the device and compiles its plan. A load that fails leaves nothing on
   * the device, and one whose device is lost is not tried again. The sources are closed either way.
   *
   * @throws {CheckpointError | UnsupportedError} naming what is wrong with the checkpoint.
   * @throws {DeviceError} with figures when it does not fit.
   * @throws {InvalidRequestError} naming an option that is out of range.
   */
  static async load(from: WeightSource, asked: LoadableOptions): Promise<Engine> {
    requireWaits(asked);
    let [source, options] = [from, asked];
    /** Frees what is there so far, where what follows fails. */
    const frees: (() => void)[] = [];
    try {
      ({ source, options } = await withExportedLayer(from, asked));
      const checkpoint = await Checkpoint.open(source);
      const text = await loadText(source, options);
      await requireSameTokens(text.tokenizer, options.draftModel);
      const { textService = localTextService, chatTemplate, chatFamily } = options;
      const given = { chatTemplate, chatFamily };
      const texts = await textService({ model: text, source, options: given });
      frees.push(() => texts.close());
      const loaded = await (options.loadRanks ?? loadRanks)(checkpoint, options);
      frees.push(() => loaded.destroy());
      const { prefixStore } = loaded.options;
      const store =
        prefixStore && (await openPrefixStore(prefixStore, { ...loaded, codec: loaded.codec! }));
      const processor = await loadImageProcessor(source, loaded.definition, text.tokenizer);
      const costs = await costsOf(loaded, options);
      await source.close?.();
      await options.draftModel?.close?.();
      return new this(source, loaded, { ...options, text, texts, store, costs, processor });
    } catch (error) {
      for (const free of frees.reverse()) free();
      // This error counts.
      await source.close?.().catch(() => {});
      await options.draftModel?.close?.().catch(() => {});
      throw error;
    }
  }

  /** What the start-up self-test found on this adapter. */
  get selfTest(): SelfTestReport {
    return this.#loaded.current.selfTest;
  }

  /** What every rank holds and computes whole, where several share the model. */
  get unshared(): readonly Unshared[] {
    return this.#loaded.current.unshared;
  }

  /** How far each matrix that was quantized while it was uploaded is from its numbers. */
  get quantizationErrors(): readonly QuantizationError[] {
    return this.#loaded.current.quantizationErrors;
  }

  /** What was compiled for this model, and how long each pipeline took. */
  get pipelines(): readonly CompiledPipeline[] {
    return this.#loaded.current.pipelines;
  }

  /** Of its pages, which those of an engine that they travel to or from must be like. */
  get pageLayout(): SharedLayout | undefined {
    return this.#loaded.current.codec?.layout;
  }

  /** Prompts whose pages leave, wait for a place, and come. */
  get travellers(): TravellingPages["counts"] | undefined {
    return this.#travelling?.counts;
  }

  generate(request: LocalRequest): AsyncIterableIterator<GenerationChunk, undefined> {
    const { signal } = request;
    let sequence: Sequence | undefined;
    let pending: PendingPrompt | undefined;
    let isOver = false;
    const onAbort = () => stream.fail(abortError());
    const stream = new ChunkStream({
      interval: request.streamInterval,
      start: () => {
        if (signal?.aborted) throw abortError();
        this.#live.requireRoom(this.#unread.size);
        const constraint = constraintOf(request, this.#loaded.current.options.grammarBackend);
        if (this.#failure !== undefined) throw this.#failure;
        const context = { ...this.#sequences, stream, constraint };
        const create = prepareSequence(request, context);
        pending = this.#prompts.read(request);
        signal?.addEventListener("abort", onAbort);
        const begin = (prompt: Prompt) => {
          if (isOver) return;
          this.#unread.delete(stream);
          sequence = create(prompt);
          const given = { constraint, routes: request, isOver: () => isOver };
          this.#starter.begin(sequence, given)?.catch((error) => stream.fail(error));
        };
        if (!(pending.prompt instanceof Promise)) return begin(pending.prompt);
        this.#unread.add(stream, request.requestId);
        pending.prompt.then(begin).catch((error: unknown) => stream.fail(error));
      },
      stop: () => {
        isOver = true;
        signal?.removeEventListener("abort", onAbort);
        this.#unread.delete(stream);
        pending?.leave();
        if (sequence === undefined) return;
        this.#live.delete(sequence);
        if (!this.#travelling?.leave(sequence)) this.#scheduler.remove(sequence);
        sequence.grammar?.close();
        this.#loop.wake();
      },
    });
    return stream;
  }

  abort(requestId?: string): void {
    this.#unread.abort(requestId, "Abort before prefill");
    for (const sequence of this.#live.of(requestId)) {
      sequence.abort(sequence.cachedTokens === undefined ? "Abort before prefill" : "Aborted");
    }
  }

  async tokenize({
    signal,
    ...request
  }: TokenizeRequest & { readonly signal?: AbortSignal }): Promise<readonly number[]> {
    return tokenize(request, this.#prompt, signal);
  }

  async detokenize(
    tokens: readonly number[],
    { skipSpecialTokens = true, client, signal }: DetokenizeOptions = {},
  ): Promise<string> {
    requireTokens(tokens, this.#prompt);
    const { longestToken, texts } = this.#prompt;
    const { tokenizer } = this.#text;
    if (tokens.length * longestToken <= SHORT_TEXT_BYTES) {
      return tokenizer.decode(tokens, { skipSpecialTokens });
    }
    const job = { type: "decode", tokens, skipSpecialTokens } as const;
    return finished(texts.run(job, { client }), signal);
  }

  status(): EngineStatus {
    return engineStatus({
      failure: this.#failure,
      loaded: this.#loaded,
      scheduler: this.#scheduler,
      pages: this.#pages,
      live: this.#live,
      loop: this.#loop,
      prefixes: this.#prefixes,
      travelling: this.#travelling,
      isDrafting: this.#sequences.drafting !== undefined,
    });
  }

  async profile(work: () => Promise<unknown>, options?: ProfileOptions): Promise<Profile> {
    const error = this.#failure ?? this.#loaded.loss;
    if (error !== undefined) throw error;
    return this.#profiler.profile(work, options);
  }

  async cacheTree(options?: CacheTreeOptions): Promise<CacheTree> {
    const { tokenizer } = this.#text;
    return drawCacheTree(this.#pages.radix, {
      vocabularySize: this.model.vocabularySize,
      decode: (tokens) => tokenizer.decode(tokens, { skipSpecialTokens: false }),
      ...options,
    });
  }

  async recordExperts(recording: ExpertRecording): Promise<ExpertRecord> {
    return this.#experts.experts.record(recording);
  }

  async flushCache({ stored = false }: FlushOptions = {}): Promise<boolean> {
    if (this.#scheduler.hasWork) return false;
    if (stored) await this.#prefixes?.clear();
    this.#pages.flush();
    this.#loop.forget();
    return true;
  }

  async close(): Promise<void> {
    this.#failure ??= new DeviceError("Cannot generate: the engine is closed");
    this.#unread.abort(undefined, "the engine is closed");
    for (const sequence of this.#scheduler.all()) {
      this.#scheduler.remove(sequence);
      sequence.abort("the engine is closed");
    }
    this.#travelling?.close(this.#failure);
    this.#loaded.close();
    try {
      await this.#loop.end();
      await this.#prefixes?.close();
      await this.#profiler.close();
    } finally {
      this.#grammars.close();
      this.#prompts.close();
      this.#loaded.destroy();
    }
  }

  #fail(error: Error): void {
    this.#failure ??= error;
    this.#travelling?.close(error);
    this.#loaded.abandon(error);
    // Every request gets the error, whatever state the scheduler is in; its stream's end removes it
    // there.
    for (const sequence of this.#scheduler.all()) sequence.fail(error);
    this.#unread.fail(error);
  }
}
