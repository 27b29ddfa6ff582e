/**
 * What the engines of a test compute together.
 *
 * @module
 */
import { type MockInstance, vi } from "vitest";
import { Scheduler } from "../../src/engine/scheduler.ts";

/** One step of an engine. */
export interface WatchedStep {
  /** Those with rows in it. */
  readonly requestIds: readonly string[];
  readonly promptRows: number;
  readonly generatedRows: number;
}

export class StepWatch {
  readonly steps: WatchedStep[] = [];
  readonly #spy: MockInstance;

  /** Sees the steps that any engine schedules from here on. */
  constructor() {
    const { schedule } = Scheduler.prototype;
    const { steps } = this;
    this.#spy = vi.spyOn(Scheduler.prototype, "schedule").mockImplementation(function (
      this: Scheduler,
    ) {
      const step = schedule.call(this);
      if (step === undefined) return step;
      let promptRows = 0;
      let generatedRows = 0;
      for (const { phase, queryLength } of step.batch.sequences) {
        if (phase === "prefill") promptRows += queryLength;
        else generatedRows += queryLength;
      }
      const requestIds = step.progress.map(({ sequence }) => sequence.requestId);
      steps.push({ requestIds, promptRows, generatedRows });
      return step;
    });
  }

  /** Most requests that any one step computed beside this one, itself included. */
  mostBeside(requestId: string): number {
    const shared = this.steps.filter(({ requestIds }) => requestIds.includes(requestId));
    return Math.max(0, ...shared.map(({ requestIds }) => requestIds.length));
  }

  stop(): void {
    this.#spy.mockRestore();
  }
}
