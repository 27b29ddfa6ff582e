/**
 * Answers that requests draft from beside their own text.
 *
 * Only for those who ask for it: how fast an answer comes tells what others were answered. So
 * answers are kept apart by partition, as cached prefixes are.
 *
 * @module
 */
import { NgramIndex } from "./ngram_index.ts";

/** Tokens of all partitions, by default. */
export const DEFAULT_SHARED_TOKENS = 2 ** 18;
/** Parts that the oldest answers are forgotten in. */
const PARTS = 8;
/** So that many small partitions take little memory too. */
const MOST_PARTS = 64;

interface Part {
  readonly partition: string | undefined;
  readonly index: NgramIndex;
}

/** Where tokens stood in an answer. */
export interface SharedMatch {
  /** Tokens that agree; 0 where there is no such place. */
  readonly length: number;
  /** What followed there: so many tokens at most, and fewer where the answer ended. */
  continuation(count: number): number[];
}

/** What one partition's requests may see. */
export interface AnswersOfPartition {
  /**
   * @param newest The token of a sequence so many places before its newest one.
   * @param count How many there are.
   * @returns The longest match, of several the newest.
   */
  find(newest: (back: number) => number, count: number): SharedMatch;
}

export class SharedNgrams {
  readonly #longest: number;
  readonly #capacity: number;
  /** The oldest first; a partition's newest takes its answers. */
  readonly #parts: Part[] = [];

  /**
   * @param longest Tokens of a match at most.
   * @param capacity Tokens that are kept, `NGRAM_BYTES_PER_TOKEN` each at most, and as much again as
   *   an index grows. Default: `DEFAULT_SHARED_TOKENS`.
   */
  constructor(longest: number, capacity = DEFAULT_SHARED_TOKENS) {
    this.#longest = longest;
    this.#capacity = capacity;
  }

  /** Tokens that are kept. */
  get length(): number {
    return this.#parts.reduce((sum, { index }) => sum + index.length, 0);
  }

  /** Memory that they take. */
  get bytes(): number {
    return this.#parts.reduce((sum, { index }) => sum + index.bytes, 0);
  }

  /**
   * Keeps an answer that has ended, or its end where it is long. The oldest are forgotten.
   *
   * @param partition What only requests of one tenant have. Undefined: that of all who name none.
   */
  add(partition: string | undefined, answer: readonly number[]): void {
    const most = Math.max(1, Math.floor(this.#capacity / PARTS) - 1);
    const index = this.#roomFor(partition, Math.min(answer.length, most));
    for (let i = Math.max(0, answer.length - most); i < answer.length; i++) {
      index.append(answer[i]!);
    }
    index.endText();
    while (this.length > this.#capacity || this.#parts.length > MOST_PARTS) this.#parts.shift();
  }

  /** The answers that a request of a partition may draft from, those to come among them. */
  of(partition: string | undefined): AnswersOfPartition {
    return {
      find: (newest, count) => {
        let best: SharedMatch = { length: 0, continuation: () => [] };
        for (const { index } of this.#partsOf(partition)) {
          const { length, end } = index.find(newest, count);
          if (length === 0 || length < best.length) continue;
          best = { length, continuation: (most) => tokensFrom(index, end + 1, most) };
        }
        return best;
      },
    };
  }

  #roomFor(partition: string | undefined, tokens: number): NgramIndex {
    const newest = this.#partsOf(partition).at(-1);
    const room = Math.floor(this.#capacity / PARTS) - (newest?.index.length ?? 0);
    if (newest !== undefined && tokens < room) return newest.index;
    const index = new NgramIndex(this.#longest);
    this.#parts.push({ partition, index });
    return index;
  }

  #partsOf(partition: string | undefined): Part[] {
    return this.#parts.filter((part) => part.partition === partition);
  }
}

function tokensFrom(index: NgramIndex, start: number, count: number): number[] {
  const tokens: number[] = [];
  while (tokens.length < count) {
    const token = index.tokenAt(start + tokens.length);
    if (token === undefined) break;
    tokens.push(token);
  }
  return tokens;
}
