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
  /** When the measurement began, and tokens since then. */
  #since = Number.NEGATIVE_INFINITY;
  #tokens = 0;
  /** When the newest token came. */
  #newest = Number.NEGATIVE_INFINITY;
  #tokensPerSecond = 0;

  /** Of the last half second of generation that is over; 0 before the first. */
  get tokensPerSecond(): number {
    return this.#tokensPerSecond;
  }

  readonly observer = (_request: GenerationRequest): RequestObserver => ({
    chunk: (chunk) => this.#count(chunk),
    end: () => {},
  });

  #count({ tokens }: GenerationChunk): void {
    if (tokens.length === 0) return;
    const now = performance.now();
    if (now - this.#newest > PAUSE) this.#restart(now);
    else this.#tokens += tokens.length;
    this.#newest = now;
    const elapsed = now - this.#since;
    if (elapsed < PERIOD) return;
    this.#tokensPerSecond = (1000 * this.#tokens) / elapsed;
    this.#restart(now);
  }

  #restart(now: number): void {
    this.#since = now;
    this.#tokens = 0;
  }
}
