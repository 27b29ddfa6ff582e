/**
 * Host memory for the pages of retracted sequences, so that they need not be computed again.
 *
 * Scheduling only notes which pages are to leave the GPU and which are to come back. They move
 * after the schedule and before its step runs; until then the pages of a retracted sequence keep
 * their contents, also where another sequence has the pages now.
 *
 * @module
 */
import { DeviceError } from "../../errors.ts";
import type { SavedPages } from "./saved_pages.ts";
import type { Sequence } from "./sequence.ts";

/** Pages to read before a step writes to them. */
export interface PageSave {
  readonly sequence: Sequence;
  readonly saved: SavedPages;
  readonly pages: readonly number[];
}

/** Pages to write before a step reads them. */
export interface PageRestore {
  readonly sequence: Sequence;
  readonly saved: SavedPages;
  /** Where they go, without the first `skip` of them. */
  readonly pages: readonly number[];
  readonly skip: number;
}

/** What of the page codec is needed here. */
export interface PageCarrier {
  packedBytes(pageCount: number): number;
  readPages(pages: readonly number[]): Promise<Uint8Array<ArrayBuffer>>;
  writePages(
    bytes: Uint8Array<ArrayBuffer>,
    pages: readonly number[],
    options: { readonly skip: number },
  ): Promise<void>;
  /** Says that what has been read is not wanted any more. */
  release?(bytes: Uint8Array): void;
}

export class RetractionMemory {
  /** Bytes that may be in use. */
  readonly budget: number;
  readonly #carrier: PageCarrier;
  #usedBytes = 0;
  #saves: PageSave[] = [];
  #restores: PageRestore[] = [];

  constructor(budget: number, carrier: PageCarrier) {
    this.budget = budget;
    this.#carrier = carrier;
  }

  get usedBytes(): number {
    return this.#usedBytes;
  }

  /** Notes that pages are to be kept for a sequence; nothing happens where they do not fit. */
  save(
    sequence: Sequence,
    {
      start,
      end,
      pages,
    }: { readonly start: number; readonly end: number; readonly pages: readonly number[] },
  ): void {
    if (pages.length === 0) return;
    const byteLength = this.#carrier.packedBytes(pages.length);
    if (this.#usedBytes + byteLength > this.budget) return;
    this.#usedBytes += byteLength;
    const saved: SavedPages = { start, end, byteLength, bytes: undefined };
    sequence.saved = saved;
    this.#saves.push({ sequence, saved, pages });
  }

  /** Notes where the pages kept for a sequence are to go, without the first `skip` of them. */
  restore(sequence: Sequence, pages: readonly number[], skip: number): void {
    this.#restores.push({ sequence, saved: sequence.saved!, pages, skip });
  }

  /** Takes the note of `restore` back: what is kept stays here. */
  keep(sequence: Sequence): void {
    this.#restores = this.#restores.filter((restore) => restore.sequence !== sequence);
  }

  /** What is kept for a sequence stays so far as it is here: no page holds anything any more. */
  losePages(sequence: Sequence): void {
    if (sequence.saved?.bytes === undefined) this.drop(sequence);
    else this.keep(sequence);
  }

  /** Frees what is kept for a sequence; nothing to do where there is nothing. */
  drop(sequence: Sequence): void {
    if (sequence.saved === undefined) return;
    const { byteLength, bytes } = sequence.saved;
    this.#usedBytes -= byteLength;
    if (bytes !== undefined) this.#carrier.release?.(bytes);
    sequence.saved = undefined;
    this.keep(sequence);
  }

  /** Whether anything has been noted since the last call of `take`. */
  get isMoving(): boolean {
    return this.#saves.length + this.#restores.length > 0;
  }

  /** What has been noted since the last call. */
  take(): { readonly saves: readonly PageSave[]; readonly restores: readonly PageRestore[] } {
    const transfers = { saves: this.#saves, restores: this.#restores };
    this.#saves = [];
    this.#restores = [];
    return transfers;
  }

  /**
   * Takes pages to the host. Where that fails nothing is kept: they are computed again.
   *
   * @throws {DeviceError} when the device is lost.
   */
  async carrySaves(saves: readonly PageSave[]): Promise<void> {
    for (const { sequence, saved, pages } of saves) {
      if (sequence.saved !== saved) continue;
      try {
        const bytes = await this.#carrier.readPages(pages);
        if (sequence.saved === saved) saved.bytes = bytes;
        else this.#carrier.release?.(bytes);
      } catch (error) {
        if (error instanceof DeviceError) throw error;
        if (sequence.saved !== saved) continue;
        // A sequence that is to go on from there at once has nothing to go on from.
        if (sequence.pageTable.length > 0) sequence.fail(error);
        else this.drop(sequence);
      }
    }
  }

  /**
   * Brings pages back. Sequences may be dropped meanwhile; one whose pages do not come back fails.
   *
   * @throws {DeviceError} when the device is lost.
   */
  async carryRestores(restores: readonly PageRestore[]): Promise<void> {
    for (const { sequence, saved, pages, skip } of restores) {
      if (sequence.saved !== saved) continue;
      try {
        await this.#carrier.writePages(saved.bytes!, pages, { skip });
      } catch (error) {
        if (error instanceof DeviceError) throw error;
        if (sequence.saved === saved) sequence.fail(error);
        continue;
      }
      if (sequence.saved === saved) this.drop(sequence);
    }
  }
}
