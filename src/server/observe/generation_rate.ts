/**
 * How fast an engine has generated last, all requests together.
 *
 * @module
 */
import type { GenerationChunk, GenerationRequest } from "../../generation.ts";
import type { RequestObserver } from "./observe.ts";

/** Milliseconds that are measured at once. */
const PERIOD = 500;
/** Milliseconds without a token after which the next one begins a new measurement. */
const PAUSE = 1000;

export class GenerationRate {
  /** Of each replica that has answered. */
  readonly #measured = new Map<number, MeasuredRate>();

  /** Of a replica's last half second of generation that is over; 0 before the first. */
  tokensPerSecond(replica = 0): number {
    return this.#measured.get(replica)?.tokensPerSecond ?? 0;
  }

  readonly observer = (_request: GenerationRequest): RequestObserver => ({
    chunk: (chunk) => this.#count(chunk),
    end: () => {},
  });

  #count({ tokens, dataParallelRank = 0 }: GenerationChunk): void {
    if (tokens.length === 0) return;
    let measured = this.#measured.get(dataParallelRank);
    if (measured === undefined) {
      measured = new MeasuredRate();
      this.#measured.set(dataParallelRank, measured);
    }
    measured.count(tokens.length);
  }
}

class MeasuredRate {
  tokensPerSecond = 0;
  /** When the measurement began, and tokens since then. */
  #since = Number.NEGATIVE_INFINITY;
  #tokens = 0;
  /** When the newest token came. */
  #newest = Number.NEGATIVE_INFINITY;

  count(tokens: number): void {
    const now = performance.now();
    if (now - this.#newest > PAUSE) this.#restart(now);
    else this.#tokens += tokens;
    this.#newest = now;
    const elapsed = now - this.#since;
    if (elapsed < PERIOD) return;
    this.tokensPerSecond = (1000 * this.#tokens) / elapsed;
    this.#restart(now);
  }

  #restart(now: number): void {
    this.#since = now;
    this.#tokens = 0;
  }
}
