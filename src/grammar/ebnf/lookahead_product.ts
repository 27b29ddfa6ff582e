/**
 * A grammar with lookaheads -> one without, of the same texts.
 *
 * What a lookahead asks of the rest of the text is followed from character to character as a state
 * (`outstanding.ts`), whichever rules the rest is of. So each rule is written once for each state that
 * it begins in and each that it ends in, as the intersection of a context-free language with a
 * regular one is (Bar-Hillel, Perles and Shamir, "On formal properties of simple phrase structure
 * grammars", 1961). A rule that meets no lookahead stays as it is where none is looked for.
 *
 * @module
 */

import { type CodePointRange, codePoints } from "../automaton/code_points.ts";
import { AutomatonBuilder } from "../automaton/regular.ts";
import { spendEffort } from "../effort.ts";
import {
  type ClassExpression,
  childrenOf,
  choice,
  EMPTY,
  type Expression,
  type Grammar,
  type RegularExpression,
  type RepeatExpression,
  regular,
  repeat,
  rule,
  sequence,
} from "../expression.ts";
import { GrammarError } from "../grammar_error.ts";
import { Obligations } from "../regex/assertions/obligations.ts";
import type { Lookaheads } from "./lookaheads.ts";
import { NOTHING_OUTSTANDING, Outstanding } from "./outstanding.ts";

/** Groups inside each other. */
const MAX_DEPTH = 500;
/** Rules, for each state that they begin in. */
export const MAX_LOOKAHEAD_RULES = 5_000;
const LOOK_EFFORT = 0.1;
const PART_EFFORT = 1;

/** For each state that texts of an expression end in, those that do. */
type Ends = ReadonlyMap<number, Expression>;

/** A rule, or what is left of a repeat, that begins in a state. */
interface Part {
  readonly name: string;
  readonly begin: number;
  readonly write: () => Ends;
  ends: Ends;
}

/** @throws {GrammarError} for lookaheads that no automaton could follow. */
export function withoutLookahead(grammar: Grammar, lookaheads: Lookaheads): Grammar {
  return lookaheads.size === 0 ? grammar : new Product(grammar, lookaheads).grammar();
}

class Product {
  readonly #grammar: Grammar;
  readonly #lookaheads: Lookaheads;
  readonly #obligations = new Obligations();
  readonly #outstanding = new Outstanding(this.#obligations);
  /** The first obligation of each lookahead. */
  readonly #begun = new Map<string, number>();
  /** Rules that lead to a lookahead. */
  readonly #looking: ReadonlySet<string>;
  /** Whether expressions lead to none. */
  readonly #plain = new Map<Expression, boolean>();
  readonly #parts = new Map<string, Part>();
  readonly #repeats = new Map<RepeatExpression, number>();
  #changed = false;

  constructor(grammar: Grammar, lookaheads: Lookaheads) {
    this.#grammar = grammar;
    this.#lookaheads = lookaheads;
    this.#looking = this.#findLooking();
  }

  grammar(): Grammar {
    const root = rule(this.#grammar.root);
    this.#of(root, NOTHING_OUTSTANDING);
    this.#findEnds();
    const whole = this.#of(root, NOTHING_OUTSTANDING);
    const rules = new Map(this.#grammar.rules);
    for (const part of this.#parts.values()) {
      for (const [end, body] of part.ends) rules.set(nameOf(part, end), body);
    }
    const options = [...whole].filter(([end]) => this.#outstanding.allowsEnd(end));
    const name = `${this.#grammar.root} with its lookaheads`;
    rules.set(name, choice(options.map(([, body]) => body)));
    return { ...this.#grammar, rules: onlyReached(rules, name), root: name };
  }

  #findEnds(): void {
    const written = new Set<Part>();
    do {
      this.#changed = false;
      // Parts that are found on the way come behind those that are known.
      for (const part of this.#parts.values()) if (!written.has(part)) this.#write(part);
      for (const part of this.#parts.values()) written.add(part);
      // What an end depends on was mostly found later.
      for (const part of [...written].reverse()) this.#write(part);
    } while (this.#changed);
  }

  #write(part: Part): void {
    const ends = part.write();
    if (ends.size !== part.ends.size) this.#changed = true;
    part.ends = ends;
  }

  #findLooking(): ReadonlySet<string> {
    const usersOf = new Map<string, Set<string>>();
    for (const [name, body] of this.#grammar.rules) {
      for (const used of rulesIn(body)) {
        const users = usersOf.get(used);
        if (users === undefined) usersOf.set(used, new Set([name]));
        else users.add(name);
      }
    }
    const looking = new Set([...usersOf.keys()].filter((name) => this.#lookaheads.get(name)));
    for (const name of looking) for (const user of usersOf.get(name) ?? []) looking.add(user);
    return looking;
  }

  /** Whether an expression stays as it is where nothing is looked for. */
  #isPlain(expression: Expression): boolean {
    let plain = this.#plain.get(expression);
    if (plain === undefined) {
      plain = true;
      for (const name of rulesIn(expression)) plain &&= !this.#looking.has(name);
      this.#plain.set(expression, plain);
    }
    return plain;
  }

  #of(expression: Expression, begin: number, depth = 0): Ends {
    spendEffort(PART_EFFORT);
    if (depth > MAX_DEPTH) throw new GrammarError("Cannot use the lookahead: groups nest too deep");
    if (begin === NOTHING_OUTSTANDING && this.#isPlain(expression)) {
      return new Map([[NOTHING_OUTSTANDING, expression]]);
    }
    switch (expression.kind) {
      case "text":
        return this.#text(expression.text, begin);
      case "class":
        return this.#class(expression, begin);
      case "sequence":
        return this.#sequence(expression.parts, begin, depth);
      case "choice":
        return united(expression.options.map((option) => this.#of(option, begin, depth + 1)));
      case "repeat":
        return this.#repeat(expression, begin);
      case "rule":
        return this.#rule(expression.name, begin);
      case "regular":
        if (expression.counted !== undefined) return refuse("text whose characters are counted");
        return this.#regular(expression, begin);
      case "unordered":
        return refuse("parts in any order");
      case "bytes":
        return refuse("a special token, which is no text");
      default:
        return expression satisfies never;
    }
  }

  #text(text: string, begin: number): Ends {
    let states = new Set([begin]);
    for (const character of text) {
      const point = character.codePointAt(0)!;
      const pieces = [...states].flatMap((state) => this.#outstanding.step(state, point, point));
      states = new Set(pieces.map(({ state }) => state));
    }
    return new Map([...states].map((state) => [state, { kind: "text", text }]));
  }

  #class({ points }: ClassExpression, begin: number): Ends {
    const rangesOf = new Map<number, CodePointRange[]>();
    for (const [from, to] of points) {
      for (const { first, last, state } of this.#outstanding.step(begin, from, to)) {
        const ranges = rangesOf.get(state);
        if (ranges === undefined) rangesOf.set(state, [[first, last]]);
        else ranges.push([first, last]);
      }
    }
    return new Map(
      [...rangesOf].map(([state, ranges]) => [
        state,
        { kind: "class", points: codePoints(ranges) },
      ]),
    );
  }

  #sequence(parts: readonly Expression[], begin: number, depth: number): Ends {
    let ends: Ends = new Map([[begin, EMPTY]]);
    for (const part of parts) {
      ends = united(
        [...ends].map(([state, before]) => after(before, this.#of(part, state, depth + 1))),
      );
    }
    return ends;
  }

  #regular({ automaton }: RegularExpression, begin: number): Ends {
    const builder = new AutomatonBuilder();
    const numbers = new Map<string, number>();
    const places: { readonly at: number; readonly state: number }[] = [];
    const number = (at: number, state: number): number => {
      const key = `${at} ${state}`;
      let known = numbers.get(key);
      if (known === undefined) {
        known = builder.add(false);
        numbers.set(key, known);
        places.push({ at, state });
      }
      return known;
    };
    const edges: {
      readonly from: number;
      readonly target: number;
      readonly range: CodePointRange;
    }[] = [];
    number(0, begin);
    for (const [from, { at, state }] of places.entries()) {
      for (const edge of automaton.states[at]!.edges) {
        for (const piece of this.#outstanding.step(state, edge.first, edge.last)) {
          const target = number(edge.target, piece.state);
          edges.push({ from, target, range: [piece.first, piece.last] });
        }
      }
    }
    const isEnd = ({ at }: { readonly at: number }) => automaton.states[at]!.accepting;
    const states = new Set(places.filter(isEnd).map(({ state }) => state));
    return new Map(
      [...states].map((end) => {
        const made = new AutomatonBuilder();
        for (const place of places) made.add(isEnd(place) && place.state === end);
        for (const { from, target, range } of edges) {
          made.connect(from, { first: range[0], last: range[1], target });
        }
        return [end, regular(made.build())];
      }),
    );
  }

  #rule(name: string, begin: number): Ends {
    const lookahead = this.#lookaheads.get(name);
    if (lookahead === undefined) {
      return this.#part(name, begin, () => this.#of(this.#grammar.rules.get(name)!, begin));
    }
    let first = this.#begun.get(name);
    if (first === undefined) {
      const rest = this.#lookaheads.restOf(lookahead, this.#grammar.rules);
      first = this.#obligations.begin(rest, lookahead);
      this.#begun.set(name, first);
    }
    const state = this.#outstanding.with(begin, first);
    return state === undefined ? new Map() : new Map([[state, EMPTY]]);
  }

  /** Round by round, as long as something is looked for; the rounds that are left stay a repeat. */
  #repeat(expression: RepeatExpression, begin: number): Ends {
    const { body, min, max } = expression;
    if (max === 0) return new Map([[begin, EMPTY]]);
    let number = this.#repeats.get(expression);
    if (number === undefined) {
      number = this.#repeats.size;
      this.#repeats.set(expression, number);
    }
    return this.#part(`repeat ${number}`, begin, () => {
      const rounds = this.#of(body, begin);
      const rest = repeat(body, { min: Math.max(min - 1, 0), max: max - 1 });
      const ends = [...rounds].map(([state, round]) =>
        after(round, this.#of(this.#sameRepeat(expression, rest), state)),
      );
      return united(min === 0 ? [new Map([[begin, EMPTY]]), ...ends] : ends);
    });
  }

  /** Repeats by what is left of them: the same object for the same bounds. */
  readonly #rests = new Map<RepeatExpression, RepeatExpression>();

  #sameRepeat(expression: RepeatExpression, rest: Expression): RepeatExpression {
    let known = this.#rests.get(expression);
    if (known === undefined) {
      const { min, max } = rest as RepeatExpression;
      const isSame = min === expression.min && max === expression.max;
      known = isSame ? expression : (rest as RepeatExpression);
      this.#rests.set(expression, known);
    }
    return known;
  }

  #part(name: string, begin: number, write: () => Ends): Ends {
    const key = `${name} ${begin}`;
    let part = this.#parts.get(key);
    if (part === undefined) {
      if (this.#parts.size === MAX_LOOKAHEAD_RULES) {
        throw new GrammarError(
          `Cannot use the lookaheads: with them the grammar has more than ${MAX_LOOKAHEAD_RULES} rules`,
        );
      }
      part = { name, begin, write, ends: new Map() };
      this.#parts.set(key, part);
      this.#changed = true;
    }
    const found = part;
    return new Map([...found.ends.keys()].map((end) => [end, rule(nameOf(found, end))]));
  }
}

function nameOf({ name, begin }: Part, end: number): string {
  return `${name} from ${begin} to ${end}`;
}

function after(before: Expression, ends: Ends): Ends {
  if (before === EMPTY) return ends;
  return new Map(
    [...ends].map(([state, body]) => [state, body === EMPTY ? before : sequence([before, body])]),
  );
}

function united(all: readonly Ends[]): Ends {
  const options = new Map<number, Expression[]>();
  for (const ends of all) {
    for (const [state, body] of ends) {
      const bodies = options.get(state);
      if (bodies === undefined) options.set(state, [body]);
      else bodies.push(body);
    }
  }
  return new Map([...options].map(([state, list]) => [state, choice(list)]));
}

/** Names of the rules that an expression refers to. */
function* rulesIn(root: Expression): Generator<string> {
  const waiting = [root];
  for (let next = waiting.pop(); next !== undefined; next = waiting.pop()) {
    spendEffort(LOOK_EFFORT);
    if (next.kind === "rule") yield next.name;
    for (const child of childrenOf(next)) waiting.push(child);
  }
}

/** Others may refer to lookaheads, which are gone. */
function onlyReached(
  rules: ReadonlyMap<string, Expression>,
  root: string,
): ReadonlyMap<string, Expression> {
  const reached = new Set([root]);
  for (const name of reached) {
    for (const used of rulesIn(rules.get(name)!)) reached.add(used);
  }
  return new Map([...rules].filter(([name]) => reached.has(name)));
}

function refuse(what: string): never {
  throw new GrammarError(`Cannot use the lookahead: it may look at ${what}`);
}
