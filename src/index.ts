/**
 * The library: what runs wherever there is a `GPUDevice`.
 *
 * @module
 */

export type { MatrixKernels } from "../kernels/linear/matrix_class.ts";
export { matrixKernels } from "../kernels/matrix_self_test.ts";
export type { SelfTestReport } from "../kernels/self_test.ts";
export {
  type MeasuredForm,
  type TunedMatrix,
  type TuneOptions,
  type TuneResult,
  tuneKernels,
  type UploadTimes,
} from "../kernels/tune.ts";
export { type TuneAttentionOptions, tuneAttention } from "../kernels/tune_attention.ts";
export type { PrefixStorage, StoredBlob } from "./cache/prefix_storage.ts";
export type { SourceFile, WeightSource } from "./checkpoint/source.ts";
export type {
  Constraint,
  GrammarCompilation,
  JsonOrder,
  JsonUnknown,
  Thinking,
} from "./constraint.ts";
export type {
  CheckpointReport,
  InspectOptions,
  WeightsReport,
} from "./engine/checkpoint_report.ts";
export type { DraftReport } from "./engine/draft_model/inspect_draft.ts";
export type { LocalRequest } from "./engine/engine.ts";
export type { EngineOptions, LoadingProgress, RecoveryEvent } from "./engine/engine_options.ts";
export type { CreateGrammarService } from "./engine/grammar/grammar_service.ts";
export { inspectCheckpoint } from "./engine/load/inspect_checkpoint.ts";
export type { MemoryBudget as MemoryPlan } from "./engine/load/memory_budget.ts";
export type {
  RequestLimit,
  StartSizes as StartPlan,
  StepLimit,
} from "./engine/load/start_sizes.ts";
export type { PrefixStoreOptions } from "./engine/prefix/prefix_options.ts";
export { messagePort, type Port } from "./engine/remote/port.ts";
export type { ConnectOptions } from "./engine/remote/remote_engine.ts";
export { serveEngine } from "./engine/remote/serve_engine.ts";
export type { LogitProcessor, LogitRow } from "./engine/sample/logit_processor.ts";
export type { StepReport } from "./engine/step/step_report.ts";
export type { CreateTextService } from "./engine/text/text_service.ts";
export {
  CapacityError,
  CheckpointError,
  ContextLengthError,
  DeviceError,
  EngineError,
  InvalidRequestError,
  KernelError,
  RequestLosesDeviceError,
  TransferError,
  UnsupportedError,
  WorkerError,
} from "./errors.ts";
export type {
  ChatMessage,
  ChatToolCall,
  DetokenizeOptions,
  EngineStatus,
  FinishReason,
  GenerationChunk,
  GenerationEngine,
  GenerationRequest,
  MessageContent,
  MessagePart,
  ModelDescription,
  TokenizeRequest,
} from "./generation.ts";
export type { CompiledPipeline } from "./gpu/pipeline_cache.ts";
export { type RowForm, type Tuning, tuningFor } from "./gpu/tuning.ts";
export type { CompiledGrammar, GrammarLimits } from "./grammar/grammar.ts";
export { GrammarError } from "./grammar/grammar_error.ts";
export {
  type CompileGrammarOptions,
  compileGrammar,
  type GrammarSource,
} from "./grammar/library.ts";
export type { TokenSource } from "./grammar/masks/grammar_vocabulary.ts";
export type { GrammarMatcher } from "./grammar/matcher.ts";
export type { CodedImage, DecodedImage, DecodeImage } from "./images/coded_image.ts";
export type { LogprobOptions, PromptLogprobs, TokenLogprob, TokenLogprobs } from "./logprobs.ts";
export { Engine } from "./openai/engine.ts";
export { RemoteEngine } from "./openai/remote_engine.ts";
export {
  type AttentionGroupsOptions,
  joinReplicas,
  loadAttentionGroups,
  type Replicas,
} from "./openai/replicas.ts";
export type { LoadBalanceMethod } from "./parallel/replicas/load_balance.ts";
export type { ReplicasOptions } from "./parallel/replicas/replicated_engine.ts";
export type {
  CacheTree,
  CacheTreeNode,
  CacheTreeOptions,
  FlushOptions,
  PrefixStoreStatus,
} from "./prefix_cache.ts";
export {
  type AdapterRates,
  type ChromeTrace,
  chromeTrace,
  formatProfile,
  type HostSpan,
  type KernelProfile,
  type LaunchSpan,
  type Profile,
  type ProfileOptions,
  type RankSpans,
  type Spans,
  type TraceEvent,
  type TraceOptions,
} from "./profile.ts";
export type { RankStatus, RanksStatus } from "./ranks_status.ts";
export type { SamplingParams } from "./sampling_params.ts";
export { type AppOptions, createApp } from "./server/app.ts";
export type { RequestDefaults } from "./server/fields/request_defaults.ts";
export type { Lifecycle } from "./server/guard/lifecycle.ts";
export type { MetricsPage } from "./server/observe/metrics_page.ts";
export type { EngineObserver, Outcome, RequestObserver } from "./server/observe/observe.ts";
export type { ProfileControl, ProfileRequest } from "./server/observe/profile_control.ts";
export {
  type ChatAnswer,
  type ChatCompletion,
  type ChatCompletionBody,
  type ChatCompletionCall,
  type ChatCompletionCallDelta,
  type ChatCompletionChunk,
  type ChatCompletionDelta,
  ChatCompletionError,
  type ChatCompletionLogprobs,
  type ChatCompletionMessage,
  type ChatCompletionUsage,
  type ChatFinishReason,
  type ChatTokenLogprob,
  type CreateOptions,
  type OpenaiChat,
  type OpenaiChatOptions,
  openaiChat,
} from "./server/openai_chat.ts";
export type { WebFile, WebPage } from "./server/routes/web_page.ts";
export type { SpeculationOptions } from "./speculation/speculation_options.ts";
export type { SpeculationFigures } from "./speculation_figures.ts";
export { type FamilyParsers, parsersOf } from "./text/family_parsers.ts";
export {
  createMessageParser,
  type MessageEvent,
  type MessageParser,
  type MessageParserOptions,
  marksOf,
  thinkingOf,
} from "./text/message_parser.ts";
