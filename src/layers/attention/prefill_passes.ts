/**
 * Cuts the attention of a batch's prompt rows into passes over a workspace of expanded keys.
 *
 * The expanded form of MLA up-projects every cached entry a prompt row looks at. The workspace
 * holds `capacity` entries, so a long prefix takes several passes. A sequence's keys are cut at
 * multiples of the split length from position 0, whatever the chunk or the pass: the order of
 * additions of a row, and so its bits, is the same in one pass or in many.
 *
 * Per item eight words, as kernels/attention/mla/mla_prefill.wgsl reads them:
 *
 * | word | meaning |
 * |---|---|
 * | 0, 1 | first row, row count (rows of one sequence, at most `rowTile`) |
 * | 2, 3 | first workspace row, position of the key there (a multiple of the split length) |
 * | 4 | key count |
 * | 5, 6 | 1 when this is the row tile's first, its last pass |
 * | 7 | 0 |
 *
 * @module
 */
import type { BatchSequence, PrefillPass } from "../batch.ts";

export const ITEM_WORDS = 8;

/** How attention that reads the cache itself cuts a step. */
export interface AttentionCut {
  /** Keys of one split. */
  readonly splitLength: number;
  /** Rows of one work item at most. */
  readonly rowTile: number;
}

export interface PassGeometry extends AttentionCut {
  readonly pageSize: number;
  /**
   * Entries the workspace holds; a multiple of `splitLength`. 0: attention reads the cache itself,
   * and one pass over all rows is enough.
   */
  readonly capacity: number;
  /** Rows of one batch at most. */
  readonly maxRows: number;
  /** Keys that the prompt rows of one batch look at in all, at most. */
  readonly maxKeys: number;
}

/**
 * Passes that `maxKeys` keys may take: every pass but the last lacks less than a split, and any two
 * that follow each other hold more than one is large.
 */
export function maxPasses({ capacity, splitLength, maxKeys }: PassGeometry): number {
  if (capacity === 0) return 1;
  const filled = Math.max(capacity - splitLength, capacity / 2);
  return Math.ceil(maxKeys / filled) + 1;
}

/** Filled anew for every batch. */
export class PrefillPasses {
  readonly passes: PrefillPass[] = [];
  /** Cache slot of every key, `[maxPasses, capacity]`. */
  readonly keySlots: Uint32Array<ArrayBuffer>;
  /** `[maxPasses * maxRows, ITEM_WORDS]` */
  readonly items: Uint32Array<ArrayBuffer>;
  itemCount = 0;
  readonly #geometry: PassGeometry;

  constructor(geometry: PassGeometry) {
    const passes = maxPasses(geometry);
    this.#geometry = geometry;
    this.keySlots = new Uint32Array(passes * geometry.capacity);
    this.items = new Uint32Array(passes * geometry.maxRows * ITEM_WORDS);
  }

  /** @param sequences Those in the prefill phase; others are skipped. */
  fill(sequences: readonly BatchSequence[]): void {
    const { splitLength, capacity } = this.#geometry;
    this.passes.length = 0;
    this.itemCount = 0;
    let pass = this.#open();
    for (const sequence of sequences) {
      if (sequence.phase !== "prefill") continue;
      const total = sequence.position + sequence.queryLength;
      if (capacity === 0) {
        pass.keys = Math.max(pass.keys, total);
        this.#addItems(sequence, pass, 0, total, true, true);
        continue;
      }
      for (let key = 0; key < total; ) {
        // As many whole splits as still fit; the sequence's last keys may be part of one.
        const room = capacity - pass.keys;
        const fits =
          total - key <= room ? total - key : Math.floor(room / splitLength) * splitLength;
        if (fits === 0) {
          pass = this.#open();
          continue;
        }
        this.#addItems(sequence, pass, key, fits, key === 0, key + fits === total);
        this.#addKeys(sequence, pass, key, fits);
        key += fits;
      }
    }
    if (pass.keys === 0) this.passes.length -= 1;
  }

  #open(): PrefillPass {
    const pass = { keys: 0, firstItem: this.itemCount, items: 0 };
    this.passes.push(pass);
    return pass;
  }

  #addKeys({ pageTable }: BatchSequence, pass: PrefillPass, first: number, count: number): void {
    const { pageSize, capacity } = this.#geometry;
    let at = (this.passes.length - 1) * capacity + pass.keys;
    for (let key = first; key < first + count; key++) {
      const page = pageTable[Math.floor(key / pageSize)]!;
      this.keySlots[at++] = page * pageSize + (key % pageSize);
    }
    pass.keys += count;
  }

  #addItems(
    { queryStart, queryLength }: BatchSequence,
    pass: PrefillPass,
    keyFirst: number,
    keyCount: number,
    isFirst: boolean,
    isLast: boolean,
  ): void {
    const { rowTile } = this.#geometry;
    for (let row = 0; row < queryLength; row += rowTile) {
      const at = this.itemCount * ITEM_WORDS;
      this.items[at] = queryStart + row;
      this.items[at + 1] = Math.min(rowTile, queryLength - row);
      this.items[at + 2] = pass.keys;
      this.items[at + 3] = keyFirst;
      this.items[at + 4] = keyCount;
      this.items[at + 5] = isFirst ? 1 : 0;
      this.items[at + 6] = isLast ? 1 : 0;
      this.items[at + 7] = 0;
      this.itemCount += 1;
      pass.items += 1;
    }
  }
}
