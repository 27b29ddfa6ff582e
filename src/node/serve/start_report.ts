/**
 * What a start tells the person who waits for it.
 *
 * @module
 */

import type { LoadingProgress, RecoveryEvent } from "../../engine/engine_options.ts";
import type { BalanceReport } from "../../engine/experts/balance_watch.ts";
import type { RebalanceEvent } from "../../engine/experts/expert_balancer.ts";
import type { StepReport } from "../../engine/step/step_report.ts";
import type { EngineStatus } from "../../generation.ts";
import type { AdapterDescription } from "../device/device.ts";
import type { Logger, Output } from "../observe/logger.ts";
import { StepLog } from "../observe/step_log.ts";

/** Also that of measuring, which comes before the engine is there. */
export interface StartProgress extends Omit<LoadingProgress, "phase"> {
  readonly phase: LoadingProgress["phase"] | "tuning";
}

export interface StartReport {
  model(path: string): void;
  adapter(adapter: AdapterDescription): void;
  sizes(lines: readonly string[]): void;
  progress(progress: StartProgress): void;
  /** That kernels run as they were measured on this machine. */
  tuning(sentence: string): void;
  /** What names of attention backends became, one sentence each. */
  attention(sentences: readonly string[]): void;
  /** Whose way to write conversations the model follows. */
  family(name: string): void;
  /** The numeric class of each phase. */
  classes(classes: EngineStatus["numericClasses"]): void;
  /** How far weights that were quantized are from their numbers. */
  quantized(lines: readonly string[]): void;
  /** What the adapter gets wrong, one sentence each. */
  warnings(sentences: readonly string[]): void;
  /** What becomes of a device that is lost. */
  recovery(event: RecoveryEvent): void;
  /** That experts were moved, or were to be. */
  rebalanced(event: RebalanceEvent): void;
  /** How even the work of ranks was in a step. */
  balance(report: BalanceReport): void;
  /** What each step computes, once requests come, and how the engine is after it. */
  readonly step?: ((step: StepReport, status: EngineStatus) => void) | undefined;
  /** The same of a replica, of several. */
  ofReplica?(replica: number): StartReport;
}

const BAR_WIDTH = 30;
/** Lines of progress for each phase where there is no terminal to draw a bar on. */
const LINES = 4;

const PHASES: Readonly<Record<StartProgress["phase"], string>> = {
  adapter: "Testing adapter",
  weights: "Loading weights",
  pipelines: "Compiling kernels",
  tuning: "Measuring kernels",
};

/**
 * Everything as lines, progress as a bar on a terminal and as a few lines elsewhere.
 *
 * @param decodeLogInterval Steps that decode from one line about them to the next. Default 40.
 */
export function lineReport(log: Logger, decodeLogInterval = 40): StartReport {
  const stepLog = log.writes("info") ? new StepLog(log, decodeLogInterval) : undefined;
  const line = (text: string) => log.line("info", text);
  const warn = (sentence: string) => log.line("warning", `Warning: ${sentence}`);
  return {
    model: (path) => line(`Model: ${path}`),
    adapter: (adapter) => {
      line(`Adapter: ${describe(adapter)}`);
      if (adapter.isCpu) warn("this adapter runs on the CPU, a GPU would be many times faster");
    },
    sizes: (lines) => lines.forEach(line),
    progress: log.terminal === undefined ? lineProgress(line) : barProgress(log.terminal),
    tuning: line,
    attention: (sentences) => sentences.forEach(line),
    family: (name) => line(`Chat family: ${name}`),
    classes: ({ prefill, decode }) => {
      const differ = prefill !== decode;
      line(`Numeric class: ${differ ? `${prefill} for prompts, ${decode} for tokens` : decode}`);
    },
    quantized: (lines) => lines.forEach(line),
    warnings: (sentences) => sentences.forEach(warn),
    recovery: (event) => reportRecovery(log, event),
    rebalanced: (event) => line(describeRebalance(event)),
    balance: (report) => line(describeBalance(report)),
    step: stepLog && ((step, status) => stepLog.step(step, status)),
    ofReplica: (replica) => lineReport(log.ofReplica(replica), decodeLogInterval),
  };
}

/** Nothing but a bar, and that only on a terminal. */
export function quietReport(output: Output): StartReport {
  return {
    model: () => {},
    adapter: () => {},
    sizes: () => {},
    progress: output.isTTY ? barProgress(output) : () => {},
    tuning: () => {},
    attention: () => {},
    family: () => {},
    classes: () => {},
    quantized: () => {},
    warnings: () => {},
    recovery: () => {},
    rebalanced: () => {},
    balance: () => {},
  };
}

/** In the names that readers of such logs look for. */
function describeBalance({ forwardPass, current, choices, ...averages }: BalanceReport): string {
  const { last10, last100, last1000 } = averages;
  const last = [
    ["10", last10],
    ["100", last100],
    ["1000", last1000],
  ] as const;
  const said = last.map(([steps, mean]) => `last_${steps}_average_balancedness=${mean.toFixed(3)}`);
  const now = `forward_pass_id=${forwardPass} current_pass_balancedness=${current.toFixed(3)}`;
  return `[Expert Balancedness] ${now} ${said.join(" ")} gpu_physical_count_sum=${choices}`;
}

/** A line when a device is lost, one for each try to replace it that fails, one when it is over. */
function describeRebalance(event: RebalanceEvent): string {
  if (event.kind === "skipped") {
    const { balancedness, threshold } = event;
    return `Experts: none moved, as balancedness ${balancedness.toFixed(3)} is above ${threshold}`;
  }
  const { moved, seconds, before, after } = event;
  const even = `balancedness ${before.toFixed(3)} before, ${after.toFixed(3)} after`;
  return `Experts: ${moved} slots changed in ${seconds.toFixed(3)} s, ${even}`;
}

function reportRecovery(log: Logger, event: RecoveryEvent): void {
  switch (event.kind) {
    case "started": {
      const fields = { event: "device_lost", reason: event.reason };
      const text = `The device is lost (${event.reason}): the weights are read onto another one`;
      log.event("warning", text, fields);
      break;
    }
    case "searching": {
      const { suspects } = event;
      const fields = { event: "device_suspects", suspects };
      const text = `Lost again with the same requests in flight: ${suspects} of them are computed apart, others wait`;
      log.event("warning", text, fields);
      break;
    }
    case "found": {
      const { requestId, losses } = event;
      const fields = { event: "request_loses_device", rid: requestId, losses };
      const text = `Request ${JSON.stringify(requestId)} has lost the device ${losses} times and is ended: others go on`;
      log.event("error", text, fields);
      break;
    }
    case "repeating": {
      const fields = { event: "step_repeated", reason: event.reason };
      const text = `A step has failed (${event.reason}): its requests are computed again`;
      log.event("error", text, fields);
      break;
    }
    case "retrying": {
      const { reason, seconds } = event;
      const fields = { event: "device_retry", reason, seconds };
      log.event(
        "warning",
        `No other device yet (${reason}): the next try begins in ${seconds} s`,
        fields,
      );
      break;
    }
    case "finished": {
      const fields = { event: "device_replaced", seconds: event.seconds };
      log.event(
        "info",
        `Another device is there, after ${event.seconds.toFixed(1)} s: requests go on`,
        fields,
      );
      break;
    }
    case "failed":
      log.event("error", event.reason, { event: "device_given_up", reason: event.reason });
      break;
    case "progress":
      break;
    default:
      event satisfies never;
  }
}

function describe({ name, driver, backend }: AdapterDescription): string {
  return driver === "" ? `${name} (${backend})` : `${name} (${backend}, driver ${driver})`;
}

function barProgress(output: Output): StartReport["progress"] {
  let shown = "";
  return (progress) => {
    const { phase, done, total } = progress;
    const share = total === 0 ? 1 : done / total;
    const filled = Math.round(share * BAR_WIDTH);
    const bar = "#".repeat(filled) + "-".repeat(BAR_WIDTH - filled);
    const end = done >= total ? "\n" : "";
    const text = `\r${PHASES[phase].padEnd(18)}[${bar}] ${percent(share)}${counted(progress)}${end}`;
    if (text !== shown) output.write(text);
    shown = text;
  };
}

function lineProgress(line: (text: string) => void): StartReport["progress"] {
  const shown = new Map<string, number>();
  return (progress) => {
    const { phase, done, total } = progress;
    const share = total === 0 ? 1 : done / total;
    const due = Math.floor(share * LINES);
    if (due <= (shown.get(phase) ?? 0)) return;
    shown.set(phase, due);
    line(`${PHASES[phase]}: ${percent(share)}${counted(progress)}`);
  };
}

/** Pipelines are few, and some take long. */
function counted({ phase, done, total }: StartProgress): string {
  return phase === "pipelines" ? ` (${done} of ${total})` : "";
}

function percent(share: number): string {
  return `${Math.floor(share * 100)}%`;
}
