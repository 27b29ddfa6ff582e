/**
 * How much memory the bodies of all requests take: their bytes while they come, and then the values
 * that they hold.
 *
 * @module
 */
import { CapacityError } from "../errors.ts";
import { HttpError } from "./error_response.ts";

/** What the bodies of a server's requests may take together. */
export class BodyMemory {
  /** Bytes. */
  readonly limit: number;
  #used = 0;
  readonly #shares = new WeakMap<Request, BodyShare>();
  /** Ends when the last one has had its turn that wanted one. */
  #turns: Promise<unknown> = Promise.resolve();

  constructor(limit: number) {
    this.limit = limit;
  }

  /** Bytes that are counted now. */
  get used(): number {
    return this.#used;
  }

  /** What the body of a request takes; nothing at first. */
  of(request: Request): BodyShare {
    let share = this.#shares.get(request);
    if (share !== undefined) return share;
    share = new BodyShare(request.signal, {
      change: (change, needed) => this.#change(change, needed),
      inTurn: (work) => this.#inTurn(work),
    });
    this.#shares.set(request, share);
    return share;
  }

  /** A handler has answered: its share ends, unless the answer goes on with it. */
  answered(request: Request): void {
    const share = this.#shares.get(request);
    if (share !== undefined && !share.isKept) share.release();
  }

  #inTurn<T>(work: () => Promise<T>): Promise<T> {
    const turn = this.#turns.then(work);
    this.#turns = turn.catch(() => {});
    return turn;
  }

  #change(change: number, needed: number): void {
    if (needed > this.limit) throw beyond(this.limit);
    if (this.#used + change > this.limit && change > 0) {
      const state = `${this.#used} bytes are taken by other requests, and this one needs ${needed}`;
      throw new CapacityError("memory for requests", this.limit, state);
    }
    this.#used += change;
  }
}

interface Whole {
  readonly change: (change: number, needed: number) => void;
  readonly inTurn: <T>(work: () => Promise<T>) => Promise<T>;
}

/** The share of one request. */
export class BodyShare {
  readonly #signal: AbortSignal;
  readonly #whole: Whole;
  #bytes = 0;
  #isKept = false;

  constructor(signal: AbortSignal, whole: Whole) {
    this.#signal = signal;
    this.#whole = whole;
  }

  /** Ends with the client. */
  get signal(): AbortSignal {
    return this.#signal;
  }

  /** Bytes that it takes now. */
  get bytes(): number {
    return this.#bytes;
  }

  /** Whether the answer goes on after its handler. */
  get isKept(): boolean {
    return this.#isKept;
  }

  /**
   * The body takes this much from here on, instead of what it took.
   *
   * @throws {CapacityError} when other requests leave no room for it.
   * @throws {HttpError} `body_too_large` when there never is as much.
   */
  hold(bytes: number): void {
    this.#whole.change(bytes - this.#bytes, bytes);
    this.#bytes = bytes;
  }

  /**
   * What is made of the body takes this much beside it.
   *
   * @throws what `hold` throws.
   */
  add(bytes: number): void {
    this.hold(this.#bytes + bytes);
  }

  /** Does what takes a while, one request after the other. */
  inTurn<T>(work: () => Promise<T>): Promise<T> {
    return this.#whole.inTurn(work);
  }

  /**
   * Finds out whether there is room, without taking it: what a client says that it will send may
   * never come.
   *
   * @throws what `hold` throws.
   */
  check(bytes: number): void {
    const before = this.#bytes;
    this.hold(bytes);
    this.hold(before);
  }

  /** @returns Ends the share, as the client does when it leaves. */
  keep(): () => void {
    this.#isKept = true;
    const release = () => this.release();
    this.#signal.addEventListener("abort", release, { once: true });
    if (this.#signal.aborted) release();
    return () => {
      this.#signal.removeEventListener("abort", release);
      release();
    };
  }

  release(): void {
    this.#whole.change(-this.#bytes, 0);
    this.#bytes = 0;
  }
}

function beyond(limit: number): HttpError {
  return new HttpError(
    "body_too_large",
    `Cannot read the request body: its values take more than the ${limit} bytes of memory that the ` +
      "server has for requests",
  );
}
