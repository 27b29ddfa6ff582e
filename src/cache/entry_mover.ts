/**
 * Moves entries of sequences together, on the GPU: once a path of a draft tree is accepted, its
 * nodes' entries have to stand behind each other. For trees that a caller verifies; a step that drafts
 * trees moves entries itself.
 *
 * @module
 */
import { moveEntries } from "../../kernels/cache/move_entries.ts";
import { KernelError } from "../errors.ts";
import type { DeviceMemory } from "../gpu/memory.ts";
import type { Recorder } from "../gpu/recorder.ts";
import type { Tensor } from "../gpu/tensor.ts";
import { entryBytes, type KvCache } from "./kv_cache.ts";

/** Places of tokens in their sequence: the entry that is read and the one that is overwritten. */
export interface EntryMove {
  readonly from: number;
  /** At most `from`. */
  readonly to: number;
}

/** The moves of one sequence. */
export interface SequenceMoves {
  /** Its page numbers, up to every place of its moves. */
  readonly pageTable: readonly number[];
  /** `from` and `to` ascend, so that no entry is overwritten that is still to be moved. */
  readonly moves: readonly EntryMove[];
}

/** The moves that put a path's nodes, ascending, behind each other: node n has entry `base + n`. */
export function movesOfPath(base: number, nodes: readonly number[]): EntryMove[] {
  return nodes.map((node, depth) => ({ from: base + node, to: base + depth }));
}

export interface EntryMoverOptions {
  /** Tokens that a page holds. */
  readonly pageSize: number;
  /** Sequences and moves of one submit; more are made by several. */
  readonly maxSequences: number;
  readonly maxMoves: number;
}

/** Words of a run (first move, count) and of a move (slots from and to). */
const PAIR_WORDS = 2;
const WORD_BYTES = 4;

export class EntryMover {
  readonly #recorder: Recorder;
  readonly #pageSize: number;
  readonly #runs: Pairs;
  readonly #moves: Pairs;
  /** A launch for each layer. */
  readonly #launches: readonly ((runs: number, moves: number) => void)[];

  constructor(
    recorder: Recorder,
    { memory, cache }: { readonly memory: DeviceMemory; readonly cache: KvCache },
    { pageSize, maxSequences, maxMoves }: EntryMoverOptions,
  ) {
    const pairs = (count: number, label: string) => {
      const bytes = count * PAIR_WORDS * WORD_BYTES;
      return new Pairs(memory.allocate("activations", bytes, label), count);
    };
    this.#recorder = recorder;
    this.#pageSize = pageSize;
    this.#runs = pairs(maxSequences, "runs of moves");
    this.#moves = pairs(maxMoves, "moves of entries");
    const words = entryBytes(cache.shape) / WORD_BYTES;
    const [runs, moves] = [this.#runs.tensor, this.#moves.tensor];
    this.#launches = cache.layers.map((layer) =>
      moveEntries(recorder, { runs, moves, cache: layer, words }),
    );
  }

  /**
   * Moves entries of all layers: after everything submitted so far, before everything that is
   * submitted later. Nothing may be recorded meanwhile that is not submitted.
   *
   * @param sequences Each sequence once, and no page of one that another moves entries of.
   * @throws {KernelError} when moves of a sequence do not ascend, or go up.
   */
  move(sequences: readonly SequenceMoves[]): void {
    for (const { moves } of sequences) requireAscending(moves);
    for (const { pageTable, moves } of sequences) {
      let length = 0;
      for (const { from, to } of moves) {
        if (from === to) continue;
        if (this.#moves.isFull || (length === 0 && this.#runs.isFull)) {
          this.#submit();
          length = 0;
        }
        if (length === 0) this.#runs.add(this.#moves.count, 0);
        this.#moves.add(this.#slotOf(pageTable, from), this.#slotOf(pageTable, to));
        length += 1;
        this.#runs.setLast(length);
      }
    }
    this.#submit();
  }

  #slotOf(pageTable: readonly number[], place: number): number {
    const pageSize = this.#pageSize;
    return pageTable[Math.floor(place / pageSize)]! * pageSize + (place % pageSize);
  }

  #submit(): void {
    const runs = this.#runs.count;
    const moves = this.#moves.count;
    if (runs === 0) return;
    const { device } = this.#recorder;
    this.#runs.send(device);
    this.#moves.send(device);
    for (const launch of this.#launches) launch(runs, moves);
    this.#recorder.submit();
  }
}

/** @throws {KernelError} when one would overwrite an entry that a later one reads. */
function requireAscending(moves: readonly EntryMove[]): void {
  let last: EntryMove = { from: -1, to: -1 };
  for (const move of moves) {
    const { from, to } = move;
    if (to > from || from <= last.from || to <= last.to) {
      throw new KernelError(
        "cache/move_entries",
        `an entry is moved from ${from} to ${to} after one from ${last.from} to ${last.to}`,
      );
    }
    last = move;
  }
}

/** Pairs of words that the host fills and sends. */
class Pairs {
  readonly tensor: Tensor;
  count = 0;
  readonly #words: Uint32Array<ArrayBuffer>;

  constructor(tensor: Tensor, most: number) {
    this.tensor = tensor;
    this.#words = new Uint32Array(most * PAIR_WORDS);
  }

  get isFull(): boolean {
    return this.count * PAIR_WORDS === this.#words.length;
  }

  add(first: number, second: number): void {
    this.#words[this.count * PAIR_WORDS] = first;
    this.#words[this.count * PAIR_WORDS + 1] = second;
    this.count += 1;
  }

  /** Replaces the second word of the last pair. */
  setLast(second: number): void {
    this.#words[this.count * PAIR_WORDS - 1] = second;
  }

  /** Sends all pairs, and is empty. */
  send(device: GPUDevice): void {
    const { buffer, offset } = this.tensor;
    device.queue.writeBuffer(buffer, offset, this.#words, 0, this.count * PAIR_WORDS);
    this.count = 0;
  }
}
