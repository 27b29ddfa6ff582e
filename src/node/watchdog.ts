/**
 * Tells the log when an engine is stuck. Health checks see it by themselves.
 *
 * @module
 */
import type { GenerationEngine } from "../generation.ts";
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
  let isStuck = false;
  const timer = setInterval(() => {
    const { stalledFor, runningRequests } = engine.status();
    if (stalledFor >= timeout === isStuck) return;
    isStuck = !isStuck;
    const stuck =
      `No step has finished for ${timeout} seconds while ${runningRequests} requests run: ` +
      "the server is not healthy until one does";
    log.event(isStuck ? "error" : "warning", isStuck ? stuck : "Steps finish again");
  }, period);
  timer.unref();
  return () => clearInterval(timer);
}
