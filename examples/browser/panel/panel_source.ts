/**
 * What the side panel reads, and what it is told of the answer that is being written.
 *
 * @module
 */
import type { GenerationEngine, MemoryPlan } from "wisp-llm";

/** An engine that knows where its memory went; `WorkerEngine` and `Engine` are such. */
export interface PanelSource
  extends Pick<GenerationEngine, "cacheTree" | "generate" | "profile" | "status"> {
  readonly memoryPlan: MemoryPlan;
}

/** One answer, told after every chunk and once it is over. */
export interface AnswerStats {
  /** Differs from that of every other answer. */
  readonly requestId: string;
  readonly promptTokens: number;
  /** Prompt tokens that were found in the prefix cache; undefined where that is not told. */
  readonly cachedTokens: number | undefined;
  /** So far. */
  readonly completionTokens: number;
  /** When it was sent, in milliseconds of `performance.now()`. */
  readonly sentAt: number;
  /** When its first token came; undefined until then. */
  readonly firstTokenAt: number | undefined;
  readonly isOver: boolean;
}

export interface Panel {
  update(stats: AnswerStats): void;
  /** Stops looking at the engine and takes the panel off the page. */
  close(): void;
}
