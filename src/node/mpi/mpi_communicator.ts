/**
 * One rank's end of a group whose ranks are processes that MPI joins, or threads that share memory.
 *
 * Nothing here waits inside MPI: a rank that is gone must not stop the event loop of another.
 *
 * @module
 */
import { GroupError, SpoiledError } from "../../errors.ts";
import type { Communicator, Exchange, RankOf, ToAll } from "../../parallel/communicator.ts";
import {
  comesTwice,
  described,
  isToAll,
  problemOf,
  withOtherBytes,
  withoutPart,
  withoutRank,
} from "../../parallel/exchange.ts";
import { MOST_BYTES, type MpiLibrary, STATE } from "./mpi_library.ts";
import { deferred } from "./nodes.ts";

/** How long one look may hold the event loop up. */
const SLICE_MICROSECONDS = 50;
/** A rank that waits longer looks once a millisecond, and leaves the processor to those that compute. */
const BUSY_MILLISECONDS = 4;
/** The same while bytes are on their way, which move only while both ends look. */
const MOVING_SLICE_MICROSECONDS = 200;
/** Bytes a millisecond that are waited for in this way: a slow network's. */
const SLOW_RATE = 50_000;
const NOTHING = new Uint8Array(0);

export interface MpiCommunicator extends Communicator {
  readonly spoil: (reason: string) => Promise<never>;
  readonly allocate: (bytes: number) => Uint8Array<ArrayBuffer>;
  readonly release: (memory: Uint8Array<ArrayBuffer>) => void;
  /** Milliseconds after which an exchange ends whose ranks have not all come. */
  deadline: number;
  /** What has ended the group. */
  readonly failure: GroupError | undefined;
  /** Rejects with it. */
  readonly failed: Promise<never>;
  /** Ends the group for a reason that the caller has from elsewhere. */
  fail(error: GroupError): void;
}

/** What ranks exchange by: MPI, or what does the same for threads. */
export type ExchangeLibrary = Pick<
  MpiLibrary,
  "gather" | "allToAll" | "spoil" | "poll" | "leave" | "told" | "missing" | "allocate"
>;

/** What MPI is given of an exchange. */
interface Form {
  readonly text: Uint8Array;
  readonly counts: Int32Array;
}

interface Waiting {
  readonly into: Uint8Array;
  /** Absent where this rank has come without its part. */
  readonly exchange: Exchange | ToAll | undefined;
  readonly since: number;
  /** When all ranks were seen to have come. */
  movingSince?: number;
  resolve(): void;
  reject(error: GroupError): void;
}

/** @param library Has started, with this rank. */
export function mpiCommunicator(
  library: ExchangeLibrary,
  { rank, size }: RankOf,
  deadline: number,
): MpiCommunicator {
  const meeting = new Meeting(library, { rank, size }, deadline);
  const memory = new ExchangeMemory(library);
  return {
    rank,
    size,
    allGather: (part, into, exchange) => meeting.gather(part, into, exchange),
    allToAll: (part, into, exchange) => meeting.toAll(part, into, exchange),
    abort: (reason) => meeting.leave(reason),
    spoil: (reason) => meeting.spoil(reason),
    allocate: (bytes) => memory.take(bytes),
    release: (bytes) => memory.giveBack(bytes),
    fail: (error) => meeting.fail(error),
    failed: meeting.failed.promise,
    get failure() {
      return meeting.failure;
    },
    get deadline() {
      return meeting.deadline;
    },
    set deadline(milliseconds) {
      meeting.deadline = milliseconds;
    },
  };
}

/** Memory of the library, which is never freed: what is given back is there for the same size again. */
class ExchangeMemory {
  readonly #library: ExchangeLibrary;
  readonly #free = new Map<number, Uint8Array<ArrayBuffer>[]>();

  constructor(library: ExchangeLibrary) {
    this.#library = library;
  }

  take(bytes: number): Uint8Array<ArrayBuffer> {
    if (bytes === 0) return new Uint8Array(0);
    return this.#free.get(bytes)?.pop() ?? this.#library.allocate(bytes);
  }

  giveBack(memory: Uint8Array<ArrayBuffer>): void {
    const { length } = memory;
    if (length > 0) this.#free.set(length, [...(this.#free.get(length) ?? []), memory]);
  }
}

class Meeting {
  readonly #library: ExchangeLibrary;
  readonly #own: RankOf;
  readonly #forms = new WeakMap<Exchange, Form>();
  #waiting: Waiting | undefined;
  readonly failed = deferred<never>();
  failure: GroupError | undefined;
  deadline: number;

  constructor(library: ExchangeLibrary, own: RankOf, deadline: number) {
    this.#library = library;
    this.#own = own;
    this.deadline = deadline;
  }

  gather(part: Uint8Array, into: Uint8Array, exchange: Exchange): Promise<void> {
    const problem = this.#problemOf(part, into, exchange);
    if (problem !== undefined) this.#end(`Cannot gather from all ranks: ${problem}`);
    if (this.failure !== undefined) return Promise.reject(this.failure);
    const { text, counts } = this.#formOf(exchange);
    const state = this.#library.gather(text, part, counts, into, SLICE_MICROSECONDS);
    if (state === STATE.done) return Promise.resolve();
    return this.#wait(state, { into, exchange });
  }

  toAll(part: Uint8Array, into: Uint8Array, exchange: ToAll): Promise<void> {
    const problem = this.#problemOf(part, into, exchange);
    if (problem !== undefined) this.#end(`Cannot gather from all ranks: ${problem}`);
    if (this.failure !== undefined) return Promise.reject(this.failure);
    const text = new TextEncoder().encode(described(exchange));
    const [sends, receives] = [exchange.sends, exchange.receives].map((counts) =>
      Int32Array.from(counts),
    );
    const [own, all] = [[part, sends!] as const, [into, receives!] as const];
    const state = this.#library.allToAll(text, own, all, SLICE_MICROSECONDS);
    if (state === STATE.done) return Promise.resolve();
    return this.#wait(state, { into, exchange });
  }

  spoil(reason: string): Promise<never> {
    if (this.failure !== undefined) return Promise.reject(this.failure);
    const state = this.#library.spoil(reason, SLICE_MICROSECONDS);
    return this.#wait(state, { into: NOTHING, exchange: undefined }) as Promise<never>;
  }

  #wait(state: number, coming: Pick<Waiting, "into" | "exchange">): Promise<void> {
    return new Promise((resolve, reject) => {
      this.#waiting = { ...coming, since: performance.now(), resolve, reject };
      this.#take(state);
    });
  }

  /** This rank's own end: its reason goes to the others. */
  leave(reason: string): void {
    if (this.failure !== undefined) return;
    this.#library.leave(reason, false);
    this.fail(new GroupError(withoutRank(this.#own.rank, reason)));
  }

  fail(error: GroupError): void {
    this.failure ??= error;
    this.failed.reject(this.failure);
    const waiting = this.#waiting;
    this.#waiting = undefined;
    waiting?.reject(this.failure);
  }

  /** Ends the group for all ranks, with one message. */
  #end(message: string): void {
    if (this.failure === undefined) this.#library.leave(message, true);
    this.fail(new GroupError(message));
  }

  #problemOf(part: Uint8Array, into: Uint8Array, exchange: Exchange | ToAll): string | undefined {
    const wrong = problemOf(this.#own, { part, into, exchange });
    if (wrong !== undefined) return wrong;
    if (this.#waiting !== undefined) return comesTwice(this.#own.rank, exchange);
    const counts = isToAll(exchange) ? [...exchange.sends, ...exchange.receives] : exchange.counts;
    if (counts.every((count) => count <= MOST_BYTES)) return undefined;
    return `${described(exchange)} has a part of more than ${MOST_BYTES} bytes`;
  }

  #formOf(exchange: Exchange): Form {
    const known = this.#forms.get(exchange);
    if (known !== undefined) return known;
    const text = new TextEncoder().encode(described(exchange));
    const form = { text, counts: Int32Array.from(exchange.counts) };
    this.#forms.set(exchange, form);
    return form;
  }

  readonly #look = (): void => {
    const waiting = this.#waiting;
    if (waiting === undefined) return;
    const isMoving = waiting.movingSince !== undefined;
    const slice = isMoving ? MOVING_SLICE_MICROSECONDS : SLICE_MICROSECONDS;
    this.#take(this.#library.poll(waiting.into, slice));
  };

  #take(state: number): void {
    const waiting = this.#waiting!;
    if (state === STATE.done) {
      this.#waiting = undefined;
      waiting.resolve();
      return;
    }
    if (state === STATE.spoiled) {
      const { rank, text } = this.#library.told(state);
      this.#waiting = undefined;
      waiting.reject(new SpoiledError(withoutPart(rank, text)));
      return;
    }
    const isMoving = state === STATE.moving;
    if (state !== STATE.pending && !isMoving) {
      this.#endFor(state, waiting.exchange);
      return;
    }
    const now = performance.now();
    const waited = now - waiting.since;
    if (isMoving) waiting.movingSince ??= now;
    const { since, movingSince = since, into } = waiting;
    const busy = BUSY_MILLISECONDS + (isMoving ? into.length / SLOW_RATE : 0);
    if (waited > this.deadline && !isPatient(waiting.exchange)) {
      this.#end(`Cannot gather from all ranks: ${this.#lateness(waiting.exchange)}`);
    } else if (now - movingSince < busy) {
      setImmediate(this.#look);
    } else {
      setTimeout(this.#look, 1);
    }
  }

  #endFor(state: number, exchange: Waiting["exchange"]): void {
    const { rank, isWhole, text } = this.#library.told(state);
    if (state === STATE.left) {
      this.#end(isWhole ? text : withoutRank(rank, text));
      return;
    }
    this.#end(`Cannot gather from all ranks: ${this.#reasonOf(state, exchange, rank, text)}`);
  }

  #reasonOf(state: number, exchange: Waiting["exchange"], rank: number, text: string): string {
    if (state === STATE.sizes && exchange !== undefined) {
      return withOtherBytes(rank, this.#own.rank, exchange);
    }
    if (state === STATE.differs) {
      const own = `rank ${this.#own.rank} at ${nameOf(exchange)}`;
      return `rank ${rank} is at ${text}, ${own}`;
    }
    if (state === STATE.noMemory) {
      return `rank ${this.#own.rank} has no memory for ${nameOf(exchange)}`;
    }
    return `MPI has failed between rank ${this.#own.rank} and rank ${rank}`;
  }

  #lateness(exchange: Waiting["exchange"]): string {
    const ranks = this.#library.missing();
    const seconds = `${this.deadline / 1000} s`;
    // A rank that has all bytes of the others may wait for them to take its own.
    if (ranks.length === 0) return `not all ranks have taken ${nameOf(exchange)} in ${seconds}`;
    const named = `rank${ranks.length === 1 ? "" : "s"} ${ranks.join(", ")}`;
    return `${nameOf(exchange)} has waited ${seconds} for ${named}`;
  }
}

function isPatient(exchange: Waiting["exchange"]): boolean {
  return exchange !== undefined && !isToAll(exchange) && exchange.isPatient === true;
}

/** As messages name it; a rank without its part does not know which it is. */
function nameOf(exchange: Waiting["exchange"]): string {
  return exchange === undefined ? "an exchange without a part" : described(exchange);
}
