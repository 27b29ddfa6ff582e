/**
 * Special tokens inside a grammar, such as those around a model's tool calls.
 *
 * A special token is no text, and no text allows one. Where a grammar asks for one by name, it is a
 * mark: a run of bytes that no UTF-8 text contains, the same in the automaton and in the trie. So
 * marks need no edges of their own, and a text that merely looks like one is never taken for it.
 *
 * @module
 */

import { bytes, EMPTY, type Expression, sequence, text } from "../expression.ts";

/** Begins a mark. In UTF-8 it occurs nowhere. */
export const MARK_BYTE = 0xfe;

const DIGITS = 4;
const BASE = 64;

/** The bytes that stand for a special token. */
export function markBytes(token: number): Uint8Array {
  const mark = new Uint8Array(1 + DIGITS);
  mark[0] = MARK_BYTE;
  let rest = token;
  for (let i = DIGITS; i > 0; i--) {
    mark[i] = rest % BASE;
    rest = Math.floor(rest / BASE);
  }
  return mark;
}

/** Spells text in which special tokens stand by their names. */
export class Marks {
  readonly #tokens: ReadonlyMap<string, number>;
  readonly #names: readonly string[];

  /** @param tokens Special tokens by name. */
  constructor(tokens: ReadonlyMap<string, number>) {
    this.#tokens = tokens;
    // Of two names that begin at the same place the longer one is meant.
    this.#names = [...tokens.keys()].filter(Boolean).sort((a, b) => b.length - a.length);
  }

  /** Whether a text begins with the name of a special token. */
  begins(value: string): boolean {
    return this.#names.some((name) => value.startsWith(name));
  }

  /** Whether the name of a special token stands anywhere in a text. */
  occurs(value: string): boolean {
    return this.#names.some((name) => value.includes(name));
  }

  /** The name of a special token that is given by its name or its number; undefined for others. */
  nameOf(token: string | number): string | undefined {
    if (typeof token === "string") return this.#tokens.has(token) ? token : undefined;
    return this.#names.find((name) => this.#tokens.get(name) === token);
  }

  /** The text, with a mark for each special token that it names. */
  spell(value: string): Expression {
    const parts: Expression[] = [];
    let at = 0;
    while (at < value.length) {
      const next = this.#find(value, at);
      parts.push(text(value.slice(at, next?.start)));
      if (next === undefined) break;
      const mark = markBytes(this.#tokens.get(next.name)!);
      for (const byte of mark) parts.push(bytes([byte, byte]));
      at = next.start + next.name.length;
    }
    return sequence(parts.filter((part) => part !== EMPTY));
  }

  /** The first name from a place on. */
  #find(
    value: string,
    from: number,
  ): { readonly name: string; readonly start: number } | undefined {
    let first: { name: string; start: number } | undefined;
    for (const name of this.#names) {
      const start = value.indexOf(name, from);
      if (start >= 0 && (first === undefined || start < first.start)) first = { name, start };
    }
    return first;
  }
}
