/**
 * Tells the log when an engine is stuck, or has failed. Health checks see it by themselves.
 *
 * @module
 */
import type { EngineStatus, GenerationEngine } from "../../generation.ts";
import type { Logger } from "./logger.ts";

/** Milliseconds between two looks. */
const PERIOD = 1000;

export interface WatchdogOptions {
  /** Seconds without a finished step, while there is work. */
  readonly timeout: number;
  /** Milliseconds between two looks. Default 1000. */
  readonly period?: number;
}

/** @returns What stops it. */
export function startWatchdog(
  engine: GenerationEngine,
  log: Logger,
  { timeout, period = PERIOD }: WatchdogOptions,
): () => void {
  /** What was told of the engine, and of each of its replicas. */
  const told: (string | undefined)[] = [];
  const look = () => {
    const { replicas = [], ...status } = engine.status();
    for (const [i, one] of [status, ...replicas].entries()) {
      // The log tells of its recovery.
      if (i > 0 && one.recovering) continue;
      const problem = problemOf(one, timeout, i > 0);
      if (problem === told[i]) continue;
      told[i] = problem;
      const name = i === 0 ? "" : `DP${i - 1} `;
      if (problem === undefined) log.event("warning", `${name}Steps finish again`);
      else log.event("error", name + problem);
    }
  };
  const timer = setInterval(look, period);
  timer.unref();
  return () => clearInterval(timer);
}

function problemOf(
  { healthy, stalledFor }: EngineStatus,
  timeout: number,
  isReplica: boolean,
): string | undefined {
  if (!healthy) {
    return isReplica
      ? "The replica cannot go on: requests go to others"
      : "The engine cannot go on: every request is refused";
  }
  if (stalledFor < timeout) return undefined;
  const stalled = `No step has finished for ${timeout} seconds`;
  return isReplica
    ? `${stalled}: requests go to other replicas until one does`
    : `${stalled}: the server is not healthy until one does`;
}
