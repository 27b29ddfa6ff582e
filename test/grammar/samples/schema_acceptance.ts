/**
 * Whether the grammar of a JSON schema accepts a text, asked of the product's own automaton, and
 * the texts of a value to ask about.
 *
 * @module
 */
import { expect } from "vitest";
import { compileAutomaton } from "../../../src/grammar/automaton/compile_automaton.ts";
import { Configurations } from "../../../src/grammar/automaton/configurations.ts";
import { type Position, Positions } from "../../../src/grammar/distinct/positions.ts";
import type { Grammar } from "../../../src/grammar/expression.ts";
import { compileGrammar } from "../../../src/grammar/grammar.ts";
import { MaskCache } from "../../../src/grammar/masks/mask_cache.ts";
import {
  type JsonSchemaOptions,
  jsonSchemaGrammar,
} from "../../../src/grammar/schema/json_schema.ts";
import { smallVocabulary } from "./small_vocabulary.ts";

/** Says whether a whole text is in a grammar. */
export interface Acceptor {
  (text: string): boolean;
  /** Whether JSON of this value is, without white space, with members in some order. */
  readonly inSomeOrder: (value: unknown) => boolean;
}

type Places = Map<unknown, Position>;

export function acceptorOf(grammar: Grammar): Acceptor {
  const configurations = new Configurations(compileAutomaton(grammar));
  const encoder = new TextEncoder();
  const positions = new Positions(configurations);
  /** Positions without anything to remember are one where their configurations are. */
  const add = (places: Places, position: Position) =>
    places.set(position.memory ?? position.configuration, position);
  const follow = (from: Places, text: string): Places => {
    const bytes = encoder.encode(text);
    const reached: Places = new Map();
    for (const position of from.values()) {
      const end = positions.follow(position, bytes);
      if (end !== null) add(reached, end);
    }
    return reached;
  };
  const start = (): Places => add(new Map(), positions.start);

  /** Where the texts of a value lead. */
  const read = (from: Places, value: unknown): Places => {
    if (from.size === 0) return from;
    if (Array.isArray(value)) {
      let at = follow(from, "[");
      value.forEach((item, i) => {
        at = read(i > 0 ? follow(at, ",") : at, item);
      });
      return follow(at, "]");
    }
    if (typeof value !== "object" || value === null) return follow(from, JSON.stringify(value));
    return follow(readMembers(follow(from, "{"), Object.entries(value)), "}");
  };

  /** Members are left out one by one until none remains; sets of members meet again. */
  const readMembers = (from: Places, members: readonly (readonly [string, unknown])[]): Places => {
    const reached: Places[] = [
      from,
      ...Array.from({ length: 2 ** members.length - 1 }, () => new Map()),
    ];
    reached.forEach((at, done) => {
      members.forEach(([key, value], i) => {
        if (done & (1 << i)) return;
        const comma = done > 0 ? "," : "";
        const next = read(follow(at, `${comma}${JSON.stringify(key)}:`), value);
        for (const end of next.values()) add(reached[done | (1 << i)]!, end);
      });
    });
    return reached.at(-1)!;
  };

  const accept = (text: string): boolean => {
    configurations.begin();
    const [end] = follow(start(), text).values();
    return end?.configuration.accepting === true;
  };
  const inSomeOrder = (value: unknown): boolean => {
    configurations.begin();
    const ends = read(start(), value);
    return [...ends.values()].some(({ configuration }) => configuration.accepting);
  };
  return Object.assign(accept, { inSomeOrder });
}

/** Bytes, and some of what JSON is often cut into. */
const PIECES = [
  ...Array.from({ length: 256 }, (_, byte) => Uint8Array.of(byte)),
  ...['{"', '":', '"}', "12", ".5", "00", '": ', "foo", "bar", "true", "null", '":[{"', '","'].map(
    (piece) => new TextEncoder().encode(piece),
  ),
];
const END = PIECES.length;
const vocabulary = smallVocabulary({
  tokens: [...PIECES, "</s>"],
  special: [END],
  endTokens: [END],
});

/**
 * Whether the masks let a text through, in the longest tokens, and the end token behind it. Where
 * they allow the end earlier, the grammar must too.
 */
export function passesMasks(grammar: Grammar): (text: string) => boolean {
  const cache = new MaskCache(2 ** 24);
  const compiled = compileGrammar(grammar, { vocabulary, cache });
  const words = new Uint32Array(vocabulary.words);
  return (text) => {
    const matcher = compiled.createMatcher();
    const isAllowed = (token: number) => {
      matcher.mask(words);
      return ((words[token >> 5]! >>> (token & 31)) & 1) === 1;
    };
    const bytes = new TextEncoder().encode(text);
    for (let at = 0; at < bytes.length; ) {
      expect(isAllowed(END)).toBe(matcher.isAccepting);
      const token = longestToken(bytes, at);
      const mayCome = isAllowed(token);
      expect(matcher.accept(token)).toBe(mayCome);
      if (!mayCome) return false;
      at += PIECES[token]!.length;
    }
    return isAllowed(END);
  };
}

/** The last of the tokens that stand at a place; single bytes come first. */
function longestToken(bytes: Uint8Array, at: number): number {
  return PIECES.findLastIndex((piece) => piece.every((byte, i) => bytes[at + i] === byte));
}

export function acceptorOfSchema(schema: unknown, options: JsonSchemaOptions = {}): Acceptor {
  return acceptorOf(jsonSchemaGrammar(schema, options));
}

/** JSON with white space wherever it may be inside of a value, if there is a bound for it. */
export function spacious(value: unknown): string {
  return write(value, { open: " ", comma: " ,\n", colon: "\r: ", close: "\t", hollow: "\n\t" });
}

/** JSON on several lines, as models write it. */
export function indented(value: unknown): string {
  return write(value, { open: "\n  ", comma: ",\n    ", colon: ": ", close: "\n", hollow: "" });
}

/** JSON without white space. */
export function compact(value: unknown): string {
  return write(value, { open: "", comma: ",", colon: ":", close: "", hollow: "" });
}

type Spacing = Readonly<Record<"open" | "comma" | "colon" | "close" | "hollow", string>>;

function write(value: unknown, spacing: Spacing): string {
  const { open, comma, colon, close, hollow } = spacing;
  const list = (parts: readonly string[]) =>
    parts.length === 0 ? hollow : open + parts.join(comma) + close;
  if (Array.isArray(value)) return `[${list(value.map((item) => write(item, spacing)))}]`;
  const entries = entriesOf(value);
  if (entries === undefined) return JSON.stringify(value);
  const members = entries.map(([k, v]) => JSON.stringify(k) + colon + write(v, spacing));
  return `{${list(members)}}`;
}

/** An object in an order of its own, also for keys that look like numbers. */
class Arrangement {
  readonly entries: readonly (readonly [string, unknown])[];

  constructor(entries: readonly (readonly [string, unknown])[]) {
    this.entries = entries;
  }
}

function entriesOf(value: unknown): readonly (readonly [string, unknown])[] | undefined {
  if (value instanceof Arrangement) return value.entries;
  return typeof value === "object" && value !== null ? Object.entries(value) : undefined;
}

/**
 * A value with the members of its objects in every order, at most `most` of them, the value as it
 * is first.
 */
export function* arrangements(value: unknown, most = 120): Generator<unknown> {
  let left = most;
  for (const arranged of arrange(value)) {
    yield arranged;
    left -= 1;
    if (left === 0) return;
  }
}

function* arrange(value: unknown): Generator<unknown> {
  if (Array.isArray(value)) {
    yield* product(value.map((item) => () => arrange(item)));
    return;
  }
  const entries = entriesOf(value);
  if (entries === undefined) {
    yield value;
    return;
  }
  for (const order of permutations(entries)) {
    for (const values of product(
      order.map(
        ([, part]) =>
          () =>
            arrange(part),
      ),
    )) {
      yield new Arrangement(order.map(([key], i) => [key, values[i]]));
    }
  }
}

function* permutations<T>(list: readonly T[]): Generator<T[]> {
  if (list.length === 0) yield [];
  for (let i = 0; i < list.length; i++) {
    for (const rest of permutations(list.toSpliced(i, 1))) yield [list[i]!, ...rest];
  }
}

function* product(lists: readonly (() => Iterable<unknown>)[]): Generator<unknown[]> {
  const [first, ...rest] = lists;
  if (first === undefined) yield [];
  else for (const head of first()) for (const tail of product(rest)) yield [head, ...tail];
}
