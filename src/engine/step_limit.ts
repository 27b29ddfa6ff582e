/**
 * How many prompt tokens and requests a step computes, and what keeps it from more.
 *
 * @module
 */
import type { EngineOptions, ResolvedOptions } from "./engine_options.ts";
import type { MemoryPlan } from "./memory_plan.ts";

export interface StepLimit {
  /** Prompt tokens of one step at most. */
  readonly promptTokens: number;
  /**
   * What sets the number: `chunkedPrefillSize`, the rows that one submit computes, or the bytes of the
   * widest activations, which the adapter has to bind at once.
   */
  readonly bound: "asked" | "rows" | "binding";
}

export interface RequestLimit {
  /** Requests computed together at most. */
  readonly running: number;
  /** What would keep them from more, where more were asked for. */
  readonly bound: "rows" | "binding";
}

/** What is decided before any weight is read. */
export interface StartPlan extends MemoryPlan {
  readonly step: StepLimit;
  readonly requests: RequestLimit;
}

/**
 * @param wanted Before rows were taken back to fit the adapter.
 * @param fitted After that.
 */
export function stepLimit(
  { chunkedPrefillSize }: Pick<EngineOptions, "chunkedPrefillSize">,
  { wanted, fitted }: Readonly<Record<"wanted" | "fitted", ResolvedOptions>>,
): StepLimit {
  const promptTokens = fitted.maxPrefillRows;
  if (chunkedPrefillSize === promptTokens) return { promptTokens, bound: "asked" };
  return { promptTokens, bound: fitted.maxRows < wanted.maxRows ? "binding" : "rows" };
}
