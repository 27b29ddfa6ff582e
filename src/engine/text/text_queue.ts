/**
 * Jobs that wait for a thread: urgent ones first, else in the order in which they came.
 *
 * @module
 */
import { CapacityError } from "../../errors.ts";
import type { TextAnswer, TextQuestion } from "./text_messages.ts";

/** A job, and the caller that waits for it. */
export interface WaitingJob {
  readonly question: Extract<TextQuestion, { type: "run" }>;
  /** Characters. */
  readonly size: number;
  readonly isUrgent: boolean;
  readonly resolve: (answer: TextAnswer) => void;
  readonly reject: (error: unknown) => void;
}

/** What a job costs at least, in characters. */
const LEAST_COST = 1024;
const cost = ({ size }: WaitingJob) => Math.max(size, LEAST_COST);

export class TextQueue {
  readonly #limit: number;
  // Both forget and give out their first in constant time.
  readonly #urgent = new Set<WaitingJob>();
  readonly #others = new Set<WaitingJob>();
  /** Of those that are not urgent, in characters. */
  #waiting = 0;

  /** @param limit Characters that may wait, 1024 at least for each job; urgent ones do not count. */
  constructor(limit: number) {
    this.#limit = limit;
  }

  get length(): number {
    return this.#urgent.size + this.#others.size;
  }

  /** @throws {CapacityError} when too much waits already. */
  add(job: WaitingJob): void {
    if (job.isUrgent) {
      this.#urgent.add(job);
      return;
    }
    if (this.#waiting > 0 && this.#waiting + cost(job) > this.#limit) {
      throw new CapacityError(
        "places in the request queue",
        this.#limit,
        `${this.#waiting} characters wait to be tokenized, ${this.#limit} at most may`,
      );
    }
    this.#others.add(job);
    this.#waiting += cost(job);
  }

  /** @returns Whether the job has waited here. */
  remove(job: WaitingJob): boolean {
    if (this.#urgent.delete(job)) return true;
    if (!this.#others.delete(job)) return false;
    this.#waiting -= cost(job);
    return true;
  }

  /** Takes the next job out; undefined when none waits. */
  take(): WaitingJob | undefined {
    const [next] = this.#urgent.size > 0 ? this.#urgent : this.#others;
    if (next !== undefined) this.remove(next);
    return next;
  }
}
