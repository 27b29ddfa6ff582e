/**
 * Chance, sizes and strange texts for hostile constraints, the same for the same seed.
 *
 * @module
 */
import { randomPatterns } from "./random_pattern.ts";
import { SchemaSource } from "./random_schema.ts";
import { type Random, seededRandom } from "./sample_text.ts";

/** Whether sizes go up to what a request may have; otherwise to a hundredth of it. */
export interface HostileOptions {
  readonly huge: boolean;
}

export const STRANGE = Array.from(
  "aZ0_-.\"'\\/|()[]{}*+?^$:;=<>!#,& \t\n\r\0\u007f\u2028éß語😀\ufeff\u0301",
).concat("\ud800", "\udc00");
export const NAMES = [
  "__proto__",
  "constructor",
  "hasOwnProperty",
  "toString",
  "valueOf",
  "",
  "a",
  "length",
];
export const NUMBERS = [
  "0",
  "-0",
  "1e308",
  "-1e-308",
  "1e400",
  "1e-400",
  "9007199254740993",
  "0.1",
  "1e20",
  "NaN",
];

/** What hostile constraints are drawn from. */
export class HostileSource {
  readonly #random: Random;
  readonly #huge: boolean;
  readonly #seed: number;

  constructor(seed: number, { huge }: HostileOptions) {
    this.#random = seededRandom(seed);
    // The first numbers of neighbouring seeds are alike.
    for (let i = 0; i < 4; i++) this.#random(2);
    this.#seed = seed;
    this.#huge = huge;
  }

  below(count: number): number {
    return this.#random(count);
  }

  pick<T>(list: readonly T[]): T {
    return list[this.#random(list.length)]!;
  }

  /** Any size up to the largest, small ones as likely as large ones. */
  size(largest: number): number {
    const most = this.#huge ? largest : Math.ceil(largest / 100);
    return Math.floor(most ** (this.#random(1000) / 999));
  }

  /** Of a few characters, or of many where `largest` says so. */
  noise(largest = 40): string {
    return this.list(this.size(largest), () => this.pick(STRANGE)).join("");
  }

  list<T>(length: number, draw: (index: number) => T): T[] {
    return Array.from({ length }, (_, i) => draw(i));
  }

  /** With some places left out, doubled, exchanged or replaced. */
  mutate(text: string): string {
    let changed = text;
    for (let changes = this.#random(4); changes > 0; changes--) {
      const at = this.#random(changed.length + 1);
      const to = at + this.#random(12);
      const middle = this.pick([
        "",
        this.pick(STRANGE),
        changed.slice(at, to).repeat(2),
        changed.slice(this.#random(changed.length + 1)).slice(0, 20),
        this.noise(20),
      ]);
      changed = changed.slice(0, at) + middle + changed.slice(to);
    }
    return changed;
  }

  regex(): string {
    return randomPatterns(this.#seed, { anchors: true, tables: true, atomic: true }).next().pattern;
  }

  schema(): { [keyword: string]: unknown } {
    return new SchemaSource(this.#random).schema() as { [keyword: string]: unknown };
  }
}

/** A name for the messages of failing tests, and how to draw a source. */
export type Family = readonly [name: string, draw: (source: HostileSource) => string];

/** Depth without `JSON.stringify`, which needs a deep stack. */
export function nested(depth: number, open: string, close: string, inner = ""): string {
  return open.repeat(depth) + inner + close.repeat(depth);
}

/** Any value where a keyword or field wants another one. */
export const wrongValue = (source: HostileSource): unknown =>
  source.pick<unknown>([
    null,
    true,
    0,
    -1,
    1.5,
    1e300,
    "",
    "a",
    [],
    {},
    [null],
    { a: 1 },
    [[]],
    ["a", "a"],
  ]);
