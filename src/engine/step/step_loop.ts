/**
 * The engine's loop: one step after another while there is work, and the way back to them when the
 * device is lost.
 *
 * @module
 */

import type { StepCosts, StepSize } from "../../speculation/step_costs.ts";
import type { SpeculationFigures } from "../../speculation_figures.ts";
import type { BalanceWatch } from "../experts/balance_watch.ts";
import type { ExpertBalancer } from "../experts/expert_balancer.ts";
import type { ExpertRecorder, TakeCounts } from "../experts/expert_recorder.ts";
import type { RecoverableModel } from "../load/recovery.ts";
import type { PrefixTransfers } from "../prefix/prefix_transfers.ts";
import type { RetractionMemory } from "../schedule/retraction_memory.ts";
import { type ScheduledStep, sampledRows } from "../schedule/scheduled_step.ts";
import type { Scheduler } from "../schedule/scheduler.ts";
import { NO_FIGURES, sumOf, type ToldTokens } from "../schedule/sequence_drafts.ts";
import type { SequencePages } from "../schedule/sequence_pages.ts";
import type { TravellingPages } from "../transfer/travelling_pages.ts";
import { carryOut } from "./page_transfers.ts";
import type { Profiler } from "./profiler.ts";
import { reportStep, type StepReport } from "./step_report.ts";
import type { SubmittedStep } from "./step_runner.ts";
import { StepsInFlight } from "./steps_in_flight.ts";
import { WakeUp } from "./wake_up.ts";

export interface StepLoopOptions {
  readonly model: RecoverableModel;
  readonly scheduler: Scheduler;
  readonly pages: SequencePages;
  readonly profiler: Profiler;
  /** Present where the scheduler keeps pages of retracted sequences. */
  readonly retractionMemory: RetractionMemory | undefined;
  /** Present where prefixes are stored. */
  readonly prefixes: PrefixTransfers | undefined;
  /** Present where pages travel between engines. */
  readonly travelling: TravellingPages | undefined;
  /** What drafters may take of prompts in a step; absent where sequences draft nothing. */
  readonly told: ToldTokens | undefined;
  /** What steps take, where the number of drafts follows it. */
  readonly costs: Pick<StepCosts, "took"> | undefined;
  /** Takes what steps choose of experts. */
  readonly experts: ExpertRecorder;
  /** Moves experts between steps; absent where they stay. */
  readonly balancer: ExpertBalancer | undefined;
  /** Tells how even each step was; absent where the caller does not ask. */
  readonly balanceWatch: BalanceWatch | undefined;
  /** Called after every step. */
  readonly onStep?: ((report: StepReport) => void) | undefined;
  /** Called when no step can be made any more. */
  readonly onFailure: (error: Error) => void;
}

/** Milliseconds that masks are waited for while a step is in flight. */
const MASK_MS = 1;
/** Steps that may fail one after another without telling whose rows are the reason. */
const MOST_FAILURES = 3;

/** What the loop has done: finished a step, waited for news, or found nothing to do. */
type Turn = StepReport | "waited" | "idle";

export class StepLoop {
  readonly #options: StepLoopOptions;
  /** Called when there may be something to do that could not be done before. */
  readonly #news = new WakeUp();
  #running: Promise<void> | undefined;
  /** Whether there may be work that came since it last looked. */
  #isWanted = false;
  /** When it last got further, in milliseconds. */
  #progressAt = 0;
  /** Of all steps since `forget`. */
  #speculation = NO_FIGURES;
  /** Steps that have failed, with the device there, since one has sampled a token. */
  #failures = 0;

  constructor(options: StepLoopOptions) {
    this.#options = options;
  }

  get isRunning(): boolean {
    return this.#running !== undefined;
  }

  /** Seconds since a step has last finished while there is work; 0 while a device is replaced. */
  get stalledFor(): number {
    const isIdle = this.#running === undefined || this.#options.model.isRecovering;
    return isIdle ? 0 : (performance.now() - this.#progressAt) / 1000;
  }

  /** What became of drafts since `forget`. */
  get speculation(): SpeculationFigures {
    return this.#speculation;
  }

  /** Counts drafts anew. */
  forget(): void {
    this.#speculation = NO_FIGURES;
  }

  /** There is work, or a device to replace. */
  start(): void {
    this.#isWanted = true;
    this.#running ??= this.#run();
    this.wake();
  }

  /** There may be more to do for those who are there. */
  wake(): void {
    this.#news.call();
  }

  /** Resolves once nothing is left to do. */
  async end(): Promise<void> {
    this.wake();
    await this.#running;
  }

  async #run(): Promise<void> {
    const { model, prefixes, travelling, onFailure } = this.#options;
    try {
      // Requests that arrive together start together.
      await Promise.resolve();
      do {
        this.#isWanted = false;
        if (model.isRecovering) await this.#recover();
        await this.#runSteps();
      } while (this.#isWanted || model.isRecovering);
    } catch (error) {
      onFailure(error instanceof Error ? error : new Error(String(error)));
    } finally {
      // Nothing is awaited before this: a request that comes now starts the next loop.
      this.#running = undefined;
      prefixes?.rest();
      travelling?.rest();
    }
  }

  async #recover(): Promise<void> {
    const { model, scheduler, profiler, travelling } = this.#options;
    const loss = model.loss!;
    const finding = scheduler.restart(loss);
    travelling?.lost();
    profiler.lose(loss);
    await model.recover({ isBusy: () => scheduler.hasWork, finding });
  }

  /** One step after another, each submitted before the last one is seen, until the device is lost. */
  async #runSteps(): Promise<void> {
    const { model, onStep } = this.#options;
    const inFlight = new StepsInFlight(model.current.options.overlapSchedule);
    this.#progressAt = performance.now();
    try {
      while (!model.isRecovering) {
        let turn: Turn;
        try {
          turn = await this.#turn(inFlight);
        } catch (error) {
          await this.#survive(error, inFlight);
          continue;
        }
        if (turn === "idle") break;
        if (turn !== "waited") onStep?.(turn);
      }
    } catch (error) {
      if (!(await model.isLost())) throw error;
    } finally {
      await inFlight.drain();
    }
  }

  /** Fills the steps in flight up, and waits for the oldest one; where there is none, for news. */
  async #turn(inFlight: StepsInFlight): Promise<Turn> {
    const { model, scheduler, pages, profiler, prefixes, travelling, told, costs } = this.#options;
    prefixes?.rest();
    travelling?.rest();
    // While the GPU is busy, waiting a moment for a mask delays no step.
    if (scheduler.isUnprepared && !inFlight.isEmpty) await inFlight.race(this.#newsOr(MASK_MS));
    while (inFlight.hasRoom(scheduler.lookahead)) {
      const step = profiler.span("schedule", () => scheduler.schedule());
      if (step === undefined) break;
      inFlight.push(step, await profiler.span("record", () => this.#submit(step)));
    }
    if (inFlight.isEmpty) {
      // A transfer gives borrowed pages back soon, and a sequence may wait for them.
      const mayWait = scheduler.hasWork && pages.borrowerCount > 0;
      if (!scheduler.isUnprepared && !mayWait) return "idle";
      await this.#news.wait();
      inFlight.waited();
      return "waited";
    }
    const finished = await profiler.span("sample readback", () => inFlight.finish());
    const { step, tokens, drafts, ms, isAlone } = finished;
    this.#progressAt = performance.now();
    told?.renew();
    if (isGenerated(step)) costs?.took?.(sizeOf(step), ms, isAlone);
    const committed = profiler.span("commit", () => scheduler.commit(step, tokens, drafts));
    this.#speculation = sumOf(this.#speculation, committed.speculation);
    prefixes?.committed(step);
    travelling?.committed(step);
    if (tokens.length > 0) {
      model.progressed();
      this.#failures = 0;
    }
    profiler.endStep();
    return reportStep(step, committed);
  }

  /**
   * Goes on after a step that has failed though the device is there: no page that it may have written
   * to is used any more, and its sequences are computed again from their tokens. One whose rows fail
   * every time ends with the error, as one that loses devices does.
   *
   * @throws the error, where it is no sequence's doing.
   */
  async #survive(error: unknown, inFlight: StepsInFlight): Promise<void> {
    const { model, scheduler, pages, profiler, travelling } = this.#options;
    if (await model.isLost()) return;
    await inFlight.drain();
    const failure = error instanceof Error ? error : new Error(String(error));
    model.requireRepeatable(failure);
    profiler.lose(failure);
    // Transfers still write to their pages, which sequences may have next.
    while (pages.borrowerCount > 0 || travelling?.isWriting) await this.#news.wait();
    const finding = scheduler.restart(failure, "failure");
    travelling?.lost();
    this.#failures = finding === undefined ? this.#failures + 1 : 0;
    if (this.#failures > MOST_FAILURES) throw failure;
    model.repeats(failure);
  }

  async #submit(step: ScheduledStep): Promise<SubmittedStep> {
    const { model, profiler, retractionMemory, experts, balancer, balanceWatch } = this.#options;
    const { copier, runner } = model.current;
    // Before anything is awaited: a sequence may leave while pages move.
    const rows = sampledRows(step);
    const scored = step.scored.map(({ sequence, position }) => sequence.scoredRow(position));
    await carryOut(step.transfers, { retractionMemory, copier });
    const layout = model.current.expertLayout;
    if (layout !== undefined) await balancer?.beforeStep(runner, layout);
    profiler.beginStep();
    const { batch } = step;
    const onExperts = allOf([
      experts.nextStep(batch),
      balancer?.nextStep(batch),
      balanceWatch?.nextStep(),
    ]);
    return runner.submit(batch, rows, { scored, drafts: step.draftRequest, onExperts });
  }

  async #newsOr(milliseconds: number): Promise<void> {
    let timer: ReturnType<typeof setTimeout> | undefined;
    const timeout = new Promise<void>((resolve) => {
      timer = setTimeout(resolve, milliseconds);
    });
    await Promise.race([this.#news.wait(), timeout]);
    clearTimeout(timer);
  }
}

/** Whether it has no row of a prompt. */
function isGenerated({ batch }: ScheduledStep): boolean {
  return batch.sequences.every(({ phase }) => phase !== "prefill");
}

function sizeOf({ batch: { sequences, sources } }: ScheduledStep): StepSize {
  let longest = 1;
  for (const { queryLength } of sequences) longest = Math.max(longest, queryLength);
  return { sequences: sequences.length, rows: sources.length, longest };
}

/** Tells all of them; undefined where none wants to be told. */
function allOf(takers: readonly (TakeCounts | undefined)[]): TakeCounts | undefined {
  const asked = takers.filter((take) => take !== undefined);
  if (asked.length === 0) return undefined;
  return (counts) => {
    for (const take of asked) take(counts);
  };
}
