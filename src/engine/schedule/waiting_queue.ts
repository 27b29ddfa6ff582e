/**
 * Sequences that wait for a place, in the order in which they are admitted.
 *
 * Retracted sequences stay in front, the last one first: they have waited, and a client is reading
 * their answer. Behind them stand those that were overtaken too often, so that no request waits for
 * ever, then the rest by their priority, and by the policy where it is the same. What is equal keeps
 * the order in which it came.
 *
 * To come, to leave and to be the next costs a sequence the logarithm of how many wait: clients say
 * how many those are. Policies that look at the cache sort those few that they look up.
 *
 * @module
 */
import { OrderedHeap } from "./ordered_heap.ts";
import { orderByCache, rankAlone, type SchedulePolicy } from "./schedule_policy.ts";
import type { Sequence } from "./sequence.ts";
import type { SequencePages } from "./sequence_pages.ts";

/** Later sequences that may be admitted before one that waits. */
export const MOST_OVERTAKEN = 256;

/** Sequences that run apart, where some do. */
interface RunningApart {
  readonly isSearching: boolean;
  mayRun(sequence: Sequence): boolean;
}

export class WaitingQueue {
  readonly #policy: SchedulePolicy;
  readonly #pages: SequencePages;
  /** Retracted sequences, and when each was put back. */
  readonly #turns = new Map<Sequence, number>();
  readonly #retracted = new OrderedHeap<Sequence>(
    (a, b) => this.#turns.get(a)! > this.#turns.get(b)!,
  );
  #turnCount = 0;
  #arrivals = 0;
  /** The others, in the order in which they came, and their ranks in the policy. */
  readonly #inTurn = new Set<Sequence>();
  readonly #ranks = new Map<Sequence, number>();
  readonly #byPriority = new OrderedHeap<Sequence>((a, b) => this.#isBefore(a, b));
  /** Places in the order of arrival of admitted sequences: those behind the oldest have overtaken it. */
  readonly #overtaking = new OrderedHeap<number>((a, b) => a < b);

  constructor(policy: SchedulePolicy, pages: SequencePages) {
    this.#policy = policy;
    this.#pages = pages;
  }

  get size(): number {
    return this.#turns.size + this.#inTurn.size;
  }

  /** Puts a sequence behind those that came before it. */
  add(sequence: Sequence): void {
    this.#arrivals += 1;
    sequence.arrival = this.#arrivals;
    this.#inTurn.add(sequence);
    this.#ranks.set(sequence, rankAlone(this.#policy, sequence));
    this.#byPriority.add(sequence);
  }

  /** Puts a sequence that ran in front of all. */
  putBack(sequence: Sequence): void {
    this.#turnCount += 1;
    this.#turns.set(sequence, this.#turnCount);
    this.#retracted.add(sequence);
  }

  /** Takes a sequence out; nothing to do for one that does not wait. */
  delete(sequence: Sequence): void {
    if (this.#retracted.delete(sequence)) this.#turns.delete(sequence);
    if (!this.#inTurn.delete(sequence)) return;
    this.#byPriority.delete(sequence);
    this.#ranks.delete(sequence);
  }

  /** Takes out a sequence that is admitted: those that came before it and wait on are overtaken. */
  admit(sequence: Sequence): void {
    this.delete(sequence);
    const oldest = this.#oldest;
    const isOvertaking = oldest !== undefined && oldest.arrival < sequence.arrival;
    if (isOvertaking && this.#overtaking.size < MOST_OVERTAKEN) {
      this.#overtaking.add(sequence.arrival);
    }
  }

  /**
   * The sequences as they are to be admitted. What is not taken out before the next one is asked for
   * is the next again, or is left out.
   *
   * @param suspects Which of those that ran may run again while all others wait.
   */
  *inOrder(suspects?: RunningApart): Generator<Sequence, void> {
    if (suspects?.isSearching) {
      const few = [...this.#retracted.values()].filter((one) => suspects.mayRun(one));
      yield* few.sort((a, b) => this.#turns.get(b)! - this.#turns.get(a)!);
      return;
    }
    for (let next = this.#retracted.first; next !== undefined; next = this.#retracted.first) {
      yield next;
    }
    const ordered = orderByCache(this.#policy, this.#inTurn, this.#pages);
    for (const next of ordered ?? []) {
      while (this.#isOldestDue) yield this.#oldest!;
      if (this.#inTurn.has(next)) yield next;
    }
    while (ordered === undefined && this.#inTurn.size > 0) {
      yield this.#isOldestDue ? this.#oldest! : this.#byPriority.first!;
    }
  }

  /** Every sequence: retracted ones, then the others as they came. */
  *values(): Generator<Sequence, void> {
    yield* this.#retracted.values();
    yield* this.#inTurn;
  }

  /** The one that came first, of those that have not run. */
  get #oldest(): Sequence | undefined {
    return this.#inTurn.values().next().value;
  }

  /** Whether so many have overtaken it that no other one may. All that is true of came first, too. */
  get #isOldestDue(): boolean {
    const oldest = this.#oldest;
    if (oldest === undefined) return false;
    const overtaking = this.#overtaking;
    while (overtaking.size > 0 && overtaking.first! < oldest.arrival) {
      overtaking.delete(overtaking.first!);
    }
    return overtaking.size >= MOST_OVERTAKEN;
  }

  #isBefore(a: Sequence, b: Sequence): boolean {
    if (a.priority !== b.priority) return a.priority > b.priority;
    const rank = this.#ranks.get(a)! - this.#ranks.get(b)!;
    return rank === 0 ? a.arrival < b.arrival : rank < 0;
  }
}
