/**
 * `--sleep-idle-seconds` of a server: what the log is told of it.
 *
 * @module
 */
import type { CommandContext } from "../commands/command_context.ts";
import type { Logger } from "../observe/logger.ts";
import type { LaunchOptions } from "../options/options.ts";
import { SleepingEngine } from "./sleeping_engine.ts";
import type { StartedEngine } from "./start_engine.ts";
import { quietReport, type StartReport } from "./start_report.ts";

export interface SleepSurroundings {
  readonly options: LaunchOptions;
  readonly log: Logger;
  /** What the start told. */
  readonly report: StartReport;
  readonly context: Pick<CommandContext, "startEngine">;
}

/** The engine itself, unless the option asks it to sleep. */
export function sleepsWhenIdle(
  engine: StartedEngine,
  { options, log, report, context }: SleepSurroundings,
): StartedEngine {
  const { sleepIdleSeconds: idleSeconds } = options;
  if (idleSeconds === undefined) return engine;
  return new SleepingEngine(engine, {
    idleSeconds,
    load: () => context.startEngine(options, laterReport(report)),
    onSleep: () =>
      log.event(
        "info",
        `No request for ${idleSeconds} seconds: the model leaves the device until the next one`,
        { event: "sleep" },
      ),
    onWake: (seconds) =>
      log.event("info", `The model is back on the device after ${seconds.toFixed(1)} seconds`, {
        event: "wake",
        seconds,
      }),
    onFailure: (error) => log.error(error),
  });
}

/** All that is said at a start was said; what happens later still counts. */
function laterReport(report: StartReport): StartReport {
  const { recovery, warnings, step } = report;
  return {
    ...quietReport({ write: () => true }),
    recovery,
    warnings,
    step,
    ...(report.ofReplica && {
      ofReplica: (replica: number) => laterReport(report.ofReplica!(replica)),
    }),
  };
}
