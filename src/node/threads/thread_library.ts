/**
 * What ranks that are threads exchange by: for `mpiCommunicator`, what MPI is to ranks that are processes.
 * Only threads that may wait call it, which the first of a process may not.
 *
 * @module
 */
import type { ExchangeLibrary } from "../mpi/mpi_communicator.ts";
import { STATE, type Told } from "../mpi/mpi_library.ts";
import {
  arrivedAt,
  type GroupMemory,
  KIND,
  lastPlace,
  MAX_EXCHANGE_BYTES,
  MESSAGE,
  messageAt,
  placeAt,
  TEXT_BYTES,
  WORD,
} from "./group_memory.ts";

/** What this rank has come for. */
interface Coming {
  readonly kind: number;
  readonly text: Uint8Array;
  /** Bytes from each rank; absent where it came without its part. */
  readonly counts: Int32Array | undefined;
}

export class ThreadLibrary implements ExchangeLibrary {
  readonly #rank: number;
  readonly #memory: GroupMemory;
  readonly #words: Int32Array;
  readonly #texts: Uint8Array;
  /** Each as long as its memory is, which grows. */
  readonly #parts: readonly Uint8Array[];
  #number = 0;
  #coming: Coming | undefined;
  #told: Told | undefined;

  constructor(memory: GroupMemory, rank: number) {
    this.#memory = memory;
    this.#rank = rank;
    this.#words = new Int32Array(memory.words);
    this.#texts = new Uint8Array(memory.texts);
    this.#parts = memory.parts.map((part) => new Uint8Array(part));
  }

  gather(
    text: Uint8Array,
    part: Uint8Array,
    counts: Int32Array,
    into: Uint8Array,
    microseconds: number,
  ): number {
    return this.#come({ kind: KIND.gather, text, counts }, part, into, microseconds);
  }

  allToAll(
    text: Uint8Array,
    [part, sends]: readonly [Uint8Array, Int32Array],
    [into, counts]: readonly [Uint8Array, Int32Array],
    microseconds: number,
  ): number {
    return this.#come({ kind: KIND.toAll, text, counts }, part, into, microseconds, sends);
  }

  spoil(reason: string, microseconds: number): number {
    const text = new TextEncoder().encode(reason);
    const nothing = new Uint8Array(0);
    return this.#come(
      { kind: KIND.spoil, text, counts: undefined },
      nothing,
      nothing,
      microseconds,
    );
  }

  poll(into: Uint8Array, microseconds: number): number {
    const seen = Atomics.load(this.#words, WORD.bell);
    const state = this.#look(into);
    if (state !== STATE.pending) return state;
    Atomics.wait(this.#words, WORD.bell, seen, microseconds / 1000);
    return this.#look(into);
  }

  leave(text: string, isWhole: boolean): void {
    const words = this.#words;
    if (Atomics.exchange(words, WORD.leaving, 1) === 1) return;
    const { size } = this.#memory;
    words[WORD.textLength] = this.#write(lastPlace(size), new TextEncoder().encode(text));
    words[WORD.isWhole] = isWhole ? 1 : 0;
    Atomics.store(words, WORD.left, this.#rank + 1);
    this.#ring();
  }

  told(): Told {
    return this.#told!;
  }

  missing(): readonly number[] {
    return this.#ranks().filter((rank) => !this.#hasCome(rank));
  }

  allocate(bytes: number): Uint8Array<ArrayBuffer> {
    return new Uint8Array(bytes);
  }

  #come(
    coming: Coming,
    part: Uint8Array,
    into: Uint8Array,
    microseconds: number,
    sends?: Int32Array,
  ): number {
    this.#number += 1;
    this.#coming = coming;
    const { size } = this.#memory;
    const place = placeAt(size, this.#turn, this.#rank);
    if (!this.#makeRoom(place, part.length)) return STATE.noMemory;
    this.#parts[place]!.set(part);
    const at = messageAt(size, this.#turn, this.#rank);
    this.#words[at + MESSAGE.kind] = coming.kind;
    this.#words[at + MESSAGE.length] = coming.text.length;
    this.#write(place, coming.text);
    if (sends !== undefined) this.#words.set(sends, at + MESSAGE.sends);
    Atomics.store(this.#words, arrivedAt(this.#rank), this.#number);
    this.#ring();
    return this.poll(into, microseconds);
  }

  get #turn(): number {
    return this.#number % 2;
  }

  #ranks(): readonly number[] {
    return Array.from({ length: this.#memory.size }, (_, rank) => rank);
  }

  /** Numbers go round: what counts is how far apart they are. */
  #hasCome(rank: number): boolean {
    return ((Atomics.load(this.#words, arrivedAt(rank)) - this.#number) | 0) >= 0;
  }

  #ring(): void {
    Atomics.add(this.#words, WORD.bell, 1);
    Atomics.notify(this.#words, WORD.bell);
  }

  #makeRoom(place: number, bytes: number): boolean {
    const memory = this.#memory.parts[place]!;
    if (bytes <= memory.byteLength) return true;
    if (bytes > MAX_EXCHANGE_BYTES) {
      this.#told = { rank: this.#rank, isWhole: false, text: "" };
      return false;
    }
    // To twice as much, so that parts that grow bit by bit do so a few times.
    memory.grow(Math.min(MAX_EXCHANGE_BYTES, Math.max(bytes, 2 * memory.byteLength)));
    return true;
  }

  /** @returns Bytes that are there. */
  #write(place: number, text: Uint8Array): number {
    const own = text.subarray(0, TEXT_BYTES);
    this.#texts.set(own, place * TEXT_BYTES);
    return own.length;
  }

  #textAt(place: number, length: number): string {
    const from = place * TEXT_BYTES;
    // What decodes texts takes no memory that others may change.
    return new TextDecoder().decode(this.#texts.slice(from, from + Math.min(length, TEXT_BYTES)));
  }

  #look(into: Uint8Array): number {
    const { size } = this.#memory;
    let missing = 0;
    let spoiler: number | undefined;
    for (let rank = 0; rank < size; rank++) {
      if (!this.#hasCome(rank)) {
        missing += 1;
        continue;
      }
      const at = messageAt(size, this.#turn, rank);
      if (this.#words[at + MESSAGE.kind] === KIND.spoil) spoiler ??= rank;
      else if (!this.#isAlike(rank, at)) return this.#tell(STATE.differs, rank);
    }
    if (missing > 0) return this.#hasLeft() ? STATE.left : STATE.pending;
    if (spoiler !== undefined) return this.#tell(STATE.spoiled, spoiler);
    return this.#take(into);
  }

  /** Whether a rank, which has its part, came for the same as this one. */
  #isAlike(rank: number, at: number): boolean {
    const { kind, text } = this.#coming!;
    if (rank === this.#rank || kind === KIND.spoil) return true;
    if (this.#words[at + MESSAGE.length] !== text.length) return false;
    const from = placeAt(this.#memory.size, this.#turn, rank) * TEXT_BYTES;
    const compared = Math.min(text.length, TEXT_BYTES);
    for (let i = 0; i < compared; i++) if (this.#texts[from + i] !== text[i]) return false;
    return true;
  }

  #tell(state: number, rank: number): number {
    const { size } = this.#memory;
    const length = this.#words[messageAt(size, this.#turn, rank) + MESSAGE.length]!;
    const text = this.#textAt(placeAt(size, this.#turn, rank), length);
    this.#told = { rank, isWhole: false, text };
    return state;
  }

  #hasLeft(): boolean {
    const left = Atomics.load(this.#words, WORD.left);
    if (left === 0) return false;
    const text = this.#textAt(lastPlace(this.#memory.size), this.#words[WORD.textLength]!);
    this.#told = { rank: left - 1, isWhole: this.#words[WORD.isWhole] === 1, text };
    return true;
  }

  /** All have come, each with its part. */
  #take(into: Uint8Array): number {
    const { size } = this.#memory;
    const { kind, counts } = this.#coming!;
    const isToAll = kind === KIND.toAll;
    for (let rank = 0; isToAll && rank < size; rank++) {
      const sends = messageAt(size, this.#turn, rank) + MESSAGE.sends;
      if (this.#words[sends + this.#rank] !== counts![rank]) return this.#tell(STATE.sizes, rank);
    }
    let to = 0;
    for (let rank = 0; rank < size; rank++) {
      const count = counts![rank]!;
      const from = isToAll ? this.#before(rank) : 0;
      const part = this.#parts[placeAt(size, this.#turn, rank)]!;
      if (count > 0) into.set(part.subarray(from, from + count), to);
      to += count;
    }
    return STATE.done;
  }

  /** Bytes that a rank has for those in front of this one. */
  #before(rank: number): number {
    const sends = messageAt(this.#memory.size, this.#turn, rank) + MESSAGE.sends;
    let sum = 0;
    for (let other = 0; other < this.#rank; other++) sum += this.#words[sends + other]!;
    return sum;
  }
}
