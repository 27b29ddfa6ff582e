/**
 * How much the grammars of sequences may hold together: those of running and of waiting requests.
 *
 * @module
 */
import { CapacityError } from "../../errors.ts";
import type { CompiledGrammar } from "../../grammar/grammar.ts";

/** Bytes of the grammars that sequences hold, roughly. */
export const MAX_HELD_BYTES = 512 * 2 ** 20;

const MIB = 2 ** 20;

/** @param bytes How many are held, with what was asked for. */
export function grammarsFull(bytes: number, maxBytes: number): CapacityError {
  const sizes = `${Math.ceil(bytes / MIB)} MiB of ${Math.floor(maxBytes / MIB)} MiB`;
  return new CapacityError(
    "memory for grammars",
    maxBytes,
    `those of running and waiting requests would take ${sizes}, until some of these end`,
  );
}

export class GrammarMemory {
  readonly #maxBytes: number;
  /** Grammars -> sequences that hold them. */
  readonly #holders = new Map<CompiledGrammar, number>();

  constructor(maxBytes: number) {
    this.#maxBytes = maxBytes;
  }

  /** Grammars that are held. */
  get size(): number {
    return this.#holders.size;
  }

  get bytes(): number {
    let bytes = 0;
    for (const grammar of this.#holders.keys()) bytes += grammar.bytes;
    return bytes;
  }

  /** @throws {CapacityError} when there is no room for one more. */
  hold(grammar: CompiledGrammar): void {
    const holders = this.#holders.get(grammar) ?? 0;
    if (holders === 0) this.#makeRoom(grammar.bytes);
    this.#holders.set(grammar, holders + 1);
  }

  leave(grammar: CompiledGrammar): void {
    const holders = this.#holders.get(grammar)! - 1;
    if (holders === 0) this.#holders.delete(grammar);
    else this.#holders.set(grammar, holders);
  }

  /**
   * Sees to it that grammars, which grow while they are followed, stay within the limit.
   *
   * @throws {CapacityError} when they do not even where they forget what they can find out again.
   */
  check(): void {
    this.#makeRoom(0);
  }

  #makeRoom(bytes: number): void {
    if (this.bytes + bytes <= this.#maxBytes) return;
    for (const grammar of this.#holders.keys()) grammar.forget();
    const held = this.bytes + bytes;
    if (held > this.#maxBytes) throw grammarsFull(held, this.#maxBytes);
  }
}
