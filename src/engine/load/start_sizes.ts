/**
 * The sizes that a model starts with: where the memory goes, how many prompt tokens and requests a
 * step computes, and what keeps it from more.
 *
 * @module
 */
import type { ModelFacts } from "../../models/model.ts";
import { attentionRanks, type Communicator, ONE_RANK } from "../../parallel/communicator.ts";
import type { Speculation } from "../../speculation/speculation_options.ts";
import type { MemoryBudget } from "./memory_budget.ts";

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

/** What is decided before any weight is read; users of the library know it as `StartPlan`. */
export interface StartSizes extends MemoryBudget {
  readonly step: StepLimit;
  readonly requests: RequestLimit;
  /** Where drafts come from, and how many; undefined where nothing drafts. */
  readonly speculation: Speculation | undefined;
  /** Ranks that hold the same entries of the KV cache; 1 where each has its own. */
  readonly cacheCopies: number;
}

/** Rows of a step and requests, as they were asked for or as they fit. */
interface RowLimits {
  readonly maxRows: number;
  readonly maxPrefillRows: number;
  readonly maxRunningRequests: number;
}

export interface SizedOptions {
  readonly given: { readonly chunkedPrefillSize?: number | undefined };
  /** Before rows were taken back to fit the adapter, and after that. */
  readonly wanted: RowLimits;
  readonly fitted: RowLimits & Pick<StartSizes, "speculation">;
  readonly cacheCopies: number;
}

export function startSizes(memory: MemoryBudget, options: SizedOptions): StartSizes {
  const { wanted, fitted } = options;
  const running = fitted.maxRunningRequests;
  const bound = running < wanted.maxRunningRequests ? "binding" : "rows";
  const { speculation } = fitted;
  const { cacheCopies } = options;
  const requests: RequestLimit = { running, bound };
  return { ...memory, step: stepLimit(options), requests, speculation, cacheCopies };
}

/** Ranks that attend to the same requests and hold the same entries for them. */
export function copiesOfCache(
  { attention }: Pick<ModelFacts, "attention">,
  { communicator = ONE_RANK }: { readonly communicator?: Communicator },
): number {
  const { size } = attentionRanks(communicator);
  return attention.kind === "mla" ? size : Math.max(Math.floor(size / attention.kvHeads), 1);
}

function stepLimit({ given, wanted, fitted }: SizedOptions): StepLimit {
  const promptTokens = fitted.maxPrefillRows;
  if (given.chunkedPrefillSize === promptTokens) return { promptTokens, bound: "asked" };
  return { promptTokens, bound: fitted.maxRows < wanted.maxRows ? "binding" : "rows" };
}
