/**
 * What a page and the worker of its engine say to each other, beside what goes through the engine's
 * ports: plain data.
 *
 * @module
 */
import type { SelfTestReport } from "../../../kernels/self_test.ts";
import type { EngineOptions } from "../../engine/engine_options.ts";
import type { MemoryBudget } from "../../engine/load/memory_budget.ts";
import type { PrefixStoreOptions } from "../../engine/prefix/prefix_options.ts";
import type { ErrorData } from "../../engine/remote/error_data.ts";
import type { CompiledPipeline } from "../../gpu/pipeline_cache.ts";
import type { QuantizationError } from "../../layers/weights/quantizing_upload.ts";
import type { ArrivedPages } from "../decode_node/arriving_prompts.ts";
import type { AdapterDescription, OpenDeviceOptions } from "../device.ts";
import type { ModelAddress } from "./model_address.ts";

/** What is called on the page, with plain data; what these throw ends the engine. */
export interface Listeners
  extends Pick<EngineOptions, "onPlan" | "onProgress" | "onRecovery" | "onStep"> {
  /** Told of a storage of prefixes that does not work, once until it works again; no request fails for it. */
  readonly onPrefixProblem?: PrefixStoreOptions["onProblem"];
  /** Told of pages that a prefill server sends, a few times a second while they come: see `joinAsDecodeNode`. */
  readonly onPages?: ((pages: ArrivedPages) => void) | undefined;
}

export type ListenerName = keyof Listeners;

/**
 * Those that are plain data; the worker adds its own device, grammar service and storage. It has no
 * `matrixKernels`, so that it refuses class mma128.
 */
export interface PlainEngineOptions
  extends Omit<
    EngineOptions,
    | "decodeImage"
    | "device"
    | "draftModel"
    | "grammarService"
    | "imageService"
    | "textService"
    | "matrixKernels"
    | "prefixStore"
    | ListenerName
  > {
  /** Where the model or the head is that drafts. */
  readonly draftModel?: ModelAddress | undefined;
  /** Keeps prefixes in the browser's storage, so that they survive a reload. Default: nowhere. */
  readonly prefixStore?: Omit<PrefixStoreOptions, "storage" | "onProblem"> | undefined;
}

/** `load` comes first, once. */
export type WorkerCall =
  | {
      readonly type: "load";
      readonly address: ModelAddress;
      readonly options: PlainEngineOptions;
      readonly device: OpenDeviceOptions;
      /** Those that the page listens to. */
      readonly listeners: readonly ListenerName[];
    }
  /** Serves the engine at one more port. */
  | { readonly type: "connect"; readonly port: MessagePort }
  | { readonly type: "close" };

export type WorkerNews =
  | { readonly type: "called"; readonly listener: ListenerName; readonly argument: unknown }
  | { readonly type: "loaded"; readonly facts: EngineFacts }
  | { readonly type: "failed"; readonly error: ErrorData };

/** What is known of a loaded engine and never changes. */
export interface EngineFacts {
  readonly adapter: AdapterDescription;
  /** Where the memory went. */
  readonly memoryPlan: MemoryBudget;
  /** What the start-up self-test found on the adapter. */
  readonly selfTest: SelfTestReport;
  /** How far each matrix that was quantized while it was uploaded is from its numbers. */
  readonly quantizationErrors: readonly QuantizationError[];
  /** What was compiled for the model, and how long each pipeline took. */
  readonly pipelines: readonly CompiledPipeline[];
}
