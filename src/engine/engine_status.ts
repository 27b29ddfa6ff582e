/**
 * What an engine says of itself while it runs.
 *
 * @module
 */
import type { EngineStatus } from "../generation.ts";
import type { LiveSequences } from "./live_sequences.ts";
import type { RecoverableModel } from "./load/recovery.ts";
import type { PrefixTransfers } from "./prefix/prefix_transfers.ts";
import type { Scheduler } from "./schedule/scheduler.ts";
import type { SequencePages } from "./schedule/sequence_pages.ts";
import type { StepLoop } from "./step/step_loop.ts";
import type { TravellingPages } from "./transfer/travelling_pages.ts";

/** The parts that are asked. */
export interface StatusParts {
  readonly failure: Error | undefined;
  readonly loaded: RecoverableModel;
  readonly scheduler: Scheduler;
  readonly pages: SequencePages;
  readonly live: LiveSequences;
  readonly loop: StepLoop;
  readonly prefixes: PrefixTransfers | undefined;
  readonly travelling: TravellingPages | undefined;
  readonly isDrafting: boolean;
}

export function engineStatus(parts: StatusParts): EngineStatus {
  const { failure, loaded, scheduler, live, loop, prefixes, travelling, isDrafting } = parts;
  const { pageCount, pageSize } = parts.pages.pool;
  const { available, cachedPages } = parts.pages;
  const { figures, options, runner } = loaded.current;
  const { overlappedSteps } = runner;
  return {
    healthy: failure === undefined,
    recovering: loaded.isRecovering,
    recoveries: loaded.recoveries,
    runningRequests: scheduler.runningCount,
    queuedRequests: scheduler.waitingCount + (travelling?.counts.waiting ?? 0),
    queuedTokens: [...live].reduce((sum, one) => sum + (one.computed ? 0 : one.length), 0),
    totalTokens: pageCount * pageSize,
    usedTokens: (pageCount - available) * pageSize,
    cachedTokens: cachedPages * pageSize,
    retractions: scheduler.retractions,
    retractedRequests: [...live].filter((one) => one.isRetracted).length,
    stalledFor: loop.stalledFor,
    ...figures,
    ...(overlappedSteps !== undefined && { overlappedSteps }),
    maxQueuedRequests: options.maxQueuedRequests,
    ...(isDrafting && { speculation: loop.speculation }),
    ...(prefixes && { prefixStore: prefixes.status }),
  };
}
