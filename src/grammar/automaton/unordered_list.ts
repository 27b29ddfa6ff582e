/**
 * Lists whose parts may come in any order: which were written, and which may come next.
 *
 * @module
 */

export interface UnorderedList {
  readonly parts: readonly {
    /** First node of the part. */
    readonly body: number;
    readonly isRequired: boolean;
    /** Whether it may come more than once; no required one does. */
    readonly isRepeatable: boolean;
  }[];
  /** First node of what stands between two parts. */
  readonly separator: number;
  /** Where to go on behind the list. */
  readonly exit: number;
  readonly min: number;
  /** Infinity for no bound. */
  readonly max: number;
}

/** The parts of a list that were written. Plain data that never changes. */
export class WrittenParts {
  /** The same for equal ones of the same list. */
  readonly key: string;
  readonly #list: UnorderedList;
  /** A bit for each part that does not come again. */
  readonly #seen: bigint;
  /** Parts, as far as it matters. */
  readonly #count: number;
  /** Required ones that were not written. */
  readonly #missing: number;
  #open: readonly number[] | undefined;

  private constructor(
    list: UnorderedList,
    { seen, count, missing }: { seen: bigint; count: number; missing: number },
  ) {
    this.#list = list;
    this.#seen = seen;
    this.#count = count;
    this.#missing = missing;
    this.key = `${seen.toString(36)} ${count}`;
  }

  static none(list: UnorderedList): WrittenParts {
    const missing = list.parts.filter((part) => part.isRequired).length;
    return new WrittenParts(list, { seen: 0n, count: 0, missing });
  }

  /** With one more part. */
  with(part: number): WrittenParts {
    const { parts, min, max } = this.#list;
    const { isRequired, isRepeatable } = parts[part]!;
    const most = max === Number.POSITIVE_INFINITY ? min : max;
    return new WrittenParts(this.#list, {
      seen: isRepeatable ? this.#seen : this.#seen | (1n << BigInt(part)),
      count: Math.min(this.#count + 1, most),
      missing: isRequired ? this.#missing - 1 : this.#missing,
    });
  }

  /** Whether the list may end here. */
  get isComplete(): boolean {
    return this.#count >= this.#list.min && this.#missing === 0;
  }

  /** Parts that may come next: what is required always finds room. */
  get open(): readonly number[] {
    this.#open ??= this.#findOpen();
    return this.#open;
  }

  #findOpen(): number[] {
    const { parts, max } = this.#list;
    const hasRoom = this.#count + this.#missing < max;
    const written = this.#seen.toString(2);
    return parts.flatMap(({ isRequired }, i) => {
      const isWritten = written[written.length - 1 - i] === "1";
      return isWritten || !(isRequired || hasRoom) ? [] : [i];
    });
  }
}
