/**
 * The steps that are in flight: submitted, and not seen to have finished.
 *
 * While the GPU runs a step, the host prepares the next one, whose rows take the sampled ids from
 * the GPU's memory. One step ahead hides the host's work. Short steps that follow each other without
 * a change are run further ahead, as waiting for a result then takes longer than the step itself.
 *
 * @module
 */
import { type Lookahead, MOST_IN_FLIGHT } from "../schedule/lookahead.ts";
import type { ScheduledStep } from "../schedule/scheduled_step.ts";
import type { SubmittedStep } from "./step_runner.ts";

/** Steps in flight when one is run ahead of another. */
const OVERLAPPED = 2;
/** Steps that take longer leave nothing to gain by running further ahead. */
const SHORT_STEP_MS = 5;
/** Weight of the newest step in the average of their times. */
const NEWEST = 0.25;

interface StepInFlight extends SubmittedStep {
  readonly step: ScheduledStep;
  /** Whether it was submitted while no other was in flight. */
  readonly isAlone: boolean;
}

/** What a step leaves. */
export interface FinishedStep {
  readonly step: ScheduledStep;
  readonly tokens: Uint32Array;
  /** Of each sequence that the step drafted for, in order. */
  readonly drafts: readonly Uint32Array[];
  /** Milliseconds since the step before it has ended; NaN where none has, or the loop has waited. */
  readonly ms: number;
  /** Whether it was submitted while no other was in flight. */
  readonly isAlone: boolean;
}

export class StepsInFlight {
  readonly #overlap: boolean;
  #inFlight: StepInFlight[] = [];
  /** Average time of a step that ran behind another, in milliseconds. */
  #stepTime = Number.POSITIVE_INFINITY;
  /** When the newest one has ended. */
  #finished = Number.NaN;

  /** @param overlap Whether there may be more than one. */
  constructor(overlap: boolean) {
    this.#overlap = overlap;
  }

  get isEmpty(): boolean {
    return this.#inFlight.length === 0;
  }

  hasRoom(lookahead: Lookahead): boolean {
    return this.#inFlight.length < this.#most(lookahead);
  }

  #most(lookahead: Lookahead): number {
    if (!this.#overlap || lookahead === "none") return 1;
    return lookahead === "far" && this.#stepTime < SHORT_STEP_MS ? MOST_IN_FLIGHT : OVERLAPPED;
  }

  push(step: ScheduledStep, { tokens, drafts }: SubmittedStep): void {
    // The caller that waits for it gets its failure; until then it must not be an unhandled rejection.
    tokens.catch(() => {});
    this.#inFlight.push({ step, tokens, drafts, isAlone: this.isEmpty });
  }

  /** Takes note that there was nothing to do: what has passed since is no step's time. */
  waited(): void {
    this.#finished = Number.NaN;
  }

  /** Waits for the oldest step, or until `other` resolves; nothing changes. */
  async race(other: Promise<unknown>): Promise<void> {
    const oldest = this.#inFlight[0]?.tokens.catch(() => {});
    await (oldest === undefined ? other : Promise.race([oldest, other]));
  }

  /** Waits for the oldest step. */
  async finish(): Promise<FinishedStep> {
    const { step, tokens, drafts, isAlone } = this.#inFlight.shift()!;
    const ids = await tokens;
    const made = await drafts;
    const now = performance.now();
    const ms = now - this.#finished;
    this.#finished = now;
    if (!isAlone && Number.isFinite(ms)) {
      const average = Number.isFinite(this.#stepTime) ? this.#stepTime : ms;
      this.#stepTime = average + NEWEST * (ms - average);
    }
    return { step, tokens: ids, drafts: made, ms, isAlone };
  }

  /** Forgets all steps, once they have finished or failed. */
  async drain(): Promise<void> {
    const left = this.#inFlight;
    this.#inFlight = [];
    await Promise.allSettled(left.map(({ tokens }) => tokens));
  }
}
