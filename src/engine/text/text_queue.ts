/**
 * Jobs that wait for a thread: urgent ones first, else the smallest one and the one that waits longest
 * by turns. So a short text waits for two others where a flood of long ones came before it, and a long
 * one gets every other turn where short ones keep coming.
 *
 * @module
 */
import { CapacityError } from "../../errors.ts";
import type { RunQuestion, TextAnswer } from "./text_messages.ts";

/** A job, and the caller that waits for it. */
export interface WaitingJob {
  readonly question: RunQuestion;
  readonly kind: "decode" | "messages" | "text";
  /** Characters. */
  readonly size: number;
  readonly isUrgent: boolean;
  readonly resolve: (answer: TextAnswer) => void;
  readonly reject: (error: unknown) => void;
}

/** What a job costs at least, in characters. */
export const LEAST_COST = 1024;
const cost = ({ size }: WaitingJob) => Math.max(size, LEAST_COST);
/** Jobs of one class are at most twice as large as each other. */
const classOf = (job: WaitingJob) => Math.floor(Math.log2(cost(job)));

export class TextQueue {
  readonly #limit: number;
  // All forget and give out their first in constant time.
  readonly #urgent = new Set<WaitingJob>();
  /** Those that are not urgent, the one that waits longest first. */
  readonly #others = new Set<WaitingJob>();
  /** The same by their class. */
  readonly #classes: Set<WaitingJob>[] = [];
  /** Of those that are not urgent, in characters. */
  #waiting = 0;
  #isOldestsTurn = false;

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
    this.#classOf(job).add(job);
    this.#waiting += cost(job);
  }

  /** @returns Whether the job has waited here. */
  remove(job: WaitingJob): boolean {
    if (this.#urgent.delete(job)) return true;
    if (!this.#others.delete(job)) return false;
    this.#classOf(job).delete(job);
    this.#waiting -= cost(job);
    return true;
  }

  /** Takes the next job out; undefined when none waits. */
  take(): WaitingJob | undefined {
    const next = this.#next();
    if (next !== undefined) this.remove(next);
    return next;
  }

  #next(): WaitingJob | undefined {
    const [urgent] = this.#urgent;
    if (urgent !== undefined) return urgent;
    const smallest = this.#classes.find((jobs) => jobs !== undefined && jobs.size > 0);
    const [next] = this.#isOldestsTurn ? this.#others : (smallest ?? []);
    this.#isOldestsTurn = !this.#isOldestsTurn;
    return next;
  }

  #classOf(job: WaitingJob): Set<WaitingJob> {
    const number = classOf(job);
    this.#classes[number] ??= new Set();
    return this.#classes[number];
  }
}
