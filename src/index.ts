/**
 * The library: what runs wherever there is a `GPUDevice`.
 *
 * @module
 */

export type { SourceFile, WeightSource } from "./checkpoint/source.ts";
export {
  CapacityError,
  CheckpointError,
  DeviceError,
  EngineError,
  InvalidRequestError,
  KernelError,
  UnsupportedError,
} from "./errors.ts";
export type {
  ChatMessage,
  ChatToolCall,
  EngineStatus,
  FinishReason,
  GenerationChunk,
  GenerationEngine,
  GenerationRequest,
  ModelDescription,
  SamplingParams,
} from "./generation.ts";
export { type AppOptions, createApp } from "./server/app.ts";
