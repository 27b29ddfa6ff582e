/**
 * What the engines of a test compute together.
 *
 * @module
 */
import { type MockInstance, vi } from "vitest";
import type { ScheduledStep } from "../../../src/engine/schedule/scheduled_step.ts";
import { Scheduler } from "../../../src/engine/schedule/scheduler.ts";
import { isTree } from "../../../src/layers/draft_tree.ts";

/** One step of an engine. */
export interface WatchedStep {
  /** Those with rows in it. */
  readonly requestIds: readonly string[];
  readonly promptRows: number;
  readonly generatedRows: number;
  /** Those of drafts among them. */
  readonly draftRows: number;
  /** Whether these are of trees. */
  readonly hasTrees: boolean;
  /** Those that go on from drafts of the step before, which only the GPU knew. */
  readonly continued: readonly string[];
  /** Steps that had been scheduled before it and were not committed. */
  readonly ahead: number;
}

export class StepWatch {
  readonly steps: WatchedStep[] = [];
  /** Ids of prompts, by request. */
  readonly prompts = new Map<string, readonly number[]>();
  readonly #spies: readonly MockInstance[];
  #inFlight = 0;

  /** Sees the steps of the one engine that works from here on. */
  constructor() {
    const { schedule, commit } = Scheduler.prototype;
    const watch = this;
    this.#spies = [
      vi.spyOn(Scheduler.prototype, "schedule").mockImplementation(function (this: Scheduler) {
        const step = schedule.call(this);
        if (step !== undefined) watch.#note(step);
        return step;
      }),
      vi.spyOn(Scheduler.prototype, "commit").mockImplementation(function (
        this: Scheduler,
        ...rest
      ) {
        watch.#inFlight -= 1;
        return commit.apply(this, rest);
      }),
    ];
  }

  #note({ batch, progress, drafts, continued: goOn }: ScheduledStep): void {
    let promptRows = 0;
    let generatedRows = 0;
    for (const { phase, queryLength } of batch.sequences) {
      if (phase === "prefill") promptRows += queryLength;
      else generatedRows += queryLength;
    }
    const requestIds = progress.map(({ sequence }) => sequence.requestId);
    for (const { sequence } of progress) {
      const { requestId, promptLength } = sequence;
      if (!this.prompts.has(requestId)) {
        this.prompts.set(requestId, sequence.tokens.slice(0, promptLength));
      }
    }
    const draftRows = [...drafts.values()].reduce((sum, { length }) => sum + length, 0);
    const continued = [...goOn].map(({ requestId }) => requestId);
    const hasTrees = batch.sequences.some(isTree);
    const rows = { promptRows, generatedRows, draftRows, hasTrees };
    this.steps.push({ requestIds, ...rows, continued, ahead: this.#inFlight });
    this.#inFlight += 1;
  }

  /** Most requests that any one step computed, this one among them. */
  mostBeside(requestId: string): number {
    const shared = this.steps.filter(({ requestIds }) => requestIds.includes(requestId));
    return Math.max(0, ...shared.map(({ requestIds }) => requestIds.length));
  }

  stop(): void {
    for (const spy of this.#spies) spy.mockRestore();
  }
}
