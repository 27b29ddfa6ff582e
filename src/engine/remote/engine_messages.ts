/**
 * What an engine behind a port is asked, and what it answers: plain data.
 *
 * Each message of a port is a list of these: all that came up in one go. A call that awaits an
 * answer has an id, which its caller counts.
 *
 * @module
 */
import type {
  EngineStatus,
  GenerationEngine,
  GenerationRequest,
  ModelDescription,
} from "../../generation.ts";
import type { ProfileOptions } from "../../profile.ts";
import type { ErrorData } from "./error_data.ts";
import type { PackedChunk } from "./packed_chunk.ts";

/** Methods that an engine may not have. */
export type OptionalMethod = {
  [Name in keyof GenerationEngine]-?: undefined extends GenerationEngine[Name] ? Name : never;
}[keyof GenerationEngine];

/** Methods that take plain data and answer once. */
export type AskedMethod =
  | "tokenize"
  | "detokenize"
  | "flushCache"
  | Exclude<OptionalMethod, "profile">;

export type EngineCall =
  /** Comes first, and is answered by `opened`; by `ended` where the other side is another version. */
  | { readonly type: "open"; readonly version: string }
  | { readonly type: "generate"; readonly id: number; readonly request: GenerationRequest }
  /** So many more of its chunks have been taken. */
  | { readonly type: "taken"; readonly id: number; readonly chunks: number }
  /** The caller waits for its chunks no more. */
  | { readonly type: "leave"; readonly id: number }
  | { readonly type: "abort"; readonly requestId: string | undefined }
  | {
      readonly type: "ask";
      readonly id: number;
      readonly method: AskedMethod;
      readonly args: readonly unknown[];
    }
  | { readonly type: "profile"; readonly id: number; readonly options: ProfileOptions | undefined }
  /** The work that a profile is taken of is over. */
  | { readonly type: "worked"; readonly id: number }
  /** Is answered by the status, to show that the other end is there. */
  | { readonly type: "ping" }
  /** Answers the other side's `ping`. */
  | { readonly type: "pong" }
  /** The caller goes. */
  | { readonly type: "close" };

export type EngineAnswer =
  | {
      readonly type: "opened";
      readonly model: ModelDescription;
      readonly status: EngineStatus;
      /** Those that this engine has. */
      readonly methods: readonly OptionalMethod[];
    }
  | { readonly type: "chunk"; readonly id: number; readonly chunk: PackedChunk }
  | { readonly type: "answer"; readonly id: number; readonly value: unknown }
  /** Of any call with an id. */
  | { readonly type: "failed"; readonly id: number; readonly error: ErrorData }
  /** The work that a profile is taken of may begin. */
  | { readonly type: "profiling"; readonly id: number }
  | { readonly type: "status"; readonly status: EngineStatus }
  /** Is answered by `pong`, to show that the other end is there. */
  | { readonly type: "ping" }
  /** Nothing can be asked any more, and nothing else is answered. */
  | { readonly type: "ended"; readonly problem: string };

/** Chunks of a request that may be on their way, or wait to be taken. */
export const CHUNK_WINDOW = 256;
