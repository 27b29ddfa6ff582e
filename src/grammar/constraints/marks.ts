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
    for (const { name, start } of this.#find(value)) {
      parts.push(text(value.slice(at, start)));
      const mark = markBytes(this.#tokens.get(name)!);
      for (const byte of mark) parts.push(bytes([byte, byte]));
      at = start + name.length;
    }
    parts.push(text(value.slice(at)));
    return sequence(parts.filter((part) => part !== EMPTY));
  }

  /** The names in a text, from its beginning. Each is searched for from where it was found last. */
  *#find(value: string): Generator<Found> {
    let known = this.#names
      .map((name) => ({ name, start: value.indexOf(name) }))
      .filter(({ start }) => start >= 0);
    while (known.length > 0) {
      const first = known.reduce((least, one) => (one.start < least.start ? one : least));
      yield first;
      const end = first.start + first.name.length;
      known = known
        .map(({ name, start }) => ({ name, start: start < end ? value.indexOf(name, end) : start }))
        .filter(({ start }) => start >= 0);
    }
  }
}

/** A special token's name in a text. */
interface Found {
  readonly name: string;
  readonly start: number;
}
