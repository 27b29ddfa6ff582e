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
  let told: string | undefined;
  const timer = setInterval(() => {
    const problem = problemOf(engine.status(), timeout);
    if (problem === told) return;
    told = problem;
    if (problem === undefined) log.event("warning", "Steps finish again");
    else log.event("error", problem);
  }, period);
  timer.unref();
  return () => clearInterval(timer);
}

function problemOf({ healthy, stalledFor }: EngineStatus, timeout: number): string | undefined {
  if (!healthy) return "The engine cannot go on: every request is refused";
  if (stalledFor < timeout) return undefined;
  return `No step has finished for ${timeout} seconds: the server is not healthy until one does`;
}
