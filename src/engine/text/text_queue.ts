/**
 * Jobs that wait for a thread: urgent ones first, else by turns one of the smallest and one of those
 * that wait longest, each of the client whose turn it is. So a short text waits for two others where a
 * flood of long ones came before it, a long one gets every other turn where short ones keep coming,
 * and a client's text waits for few of any other client's, however many that one has sent.
 *
 * @module
 */
import { CapacityError } from "../../errors.ts";
import { ClientTurns } from "./client_turns.ts";
import type { RunQuestion, TextAnswer } from "./text_messages.ts";

/** A job, and the caller that waits for it. */
export interface WaitingJob {
  readonly question: RunQuestion;
  readonly kind: "decode" | "messages" | "text";
  /** Characters. */
  readonly size: number;
  readonly isUrgent: boolean;
  /** Whose it is; undefined where that is not known. */
  readonly client: string | undefined;
  readonly resolve: (answer: TextAnswer) => void;
  readonly reject: (error: unknown) => void;
}

/** What a job costs at least, in characters. */
export const LEAST_COST = 1024;
/** Of one client so many times what is free may wait, so that there is always room for another's. */
export const MOST_OF_FREE = 1;
const cost = ({ size }: WaitingJob) => Math.max(size, LEAST_COST);
/** Jobs of one class are at most twice as large as each other. */
const classOf = (job: WaitingJob) => Math.floor(Math.log2(cost(job)));

export class TextQueue {
  readonly #limit: number;
  // All forget and give out their first in constant time.
  readonly #urgent = new Set<WaitingJob>();
  /** Those that are not urgent. */
  readonly #others = new ClientTurns<WaitingJob>();
  /** The same by their class. */
  readonly #classes: ClientTurns<WaitingJob>[] = [];
  /** Of those that are not urgent, in characters: of all clients, and of each that has texts. */
  #waiting = 0;
  readonly #waitingOf = new Map<string, number>();
  #isOldestsTurn = false;

  /**
   * @param limit Characters that may wait, 1024 at least for each job; urgent ones do not count.
   */
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
    if (this.#waiting > 0) this.#requireRoom(job);
    this.#others.add(job);
    this.#classOf(job).add(job);
    this.#count(job, cost(job));
  }

  #requireRoom(job: WaitingJob): void {
    const own = this.#waitingOf.get(job.client ?? "") ?? 0;
    const free = this.#limit - this.#waiting;
    // Where nothing is known of clients, they may all be one, or all others.
    const most = job.client === undefined ? free : Math.min(MOST_OF_FREE * free - own, free);
    if (cost(job) <= most) return;
    throw new CapacityError(
      "places in the request queue",
      this.#limit,
      `${this.#waiting} characters wait to be tokenized, ${own} of this client, ${this.#limit} at most may`,
    );
  }

  #count({ client = "" }: WaitingJob, characters: number): void {
    this.#waiting += characters;
    const own = (this.#waitingOf.get(client) ?? 0) + characters;
    if (own === 0) this.#waitingOf.delete(client);
    else this.#waitingOf.set(client, own);
  }

  /** @returns Whether the job has waited here. */
  remove(job: WaitingJob): boolean {
    if (this.#urgent.delete(job)) return true;
    if (!this.#others.delete(job)) return false;
    this.#classOf(job).delete(job);
    this.#count(job, -cost(job));
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
    const turns = this.#isOldestsTurn ? this.#others : smallest;
    this.#isOldestsTurn = !this.#isOldestsTurn;
    return turns?.next();
  }

  #classOf(job: WaitingJob): ClientTurns<WaitingJob> {
    const number = classOf(job);
    this.#classes[number] ??= new ClientTurns<WaitingJob>();
    return this.#classes[number];
  }
}
