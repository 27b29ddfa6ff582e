/**
 * Texts of characters and marks -> texts of characters alone, in which every assertion holds.
 *
 * A state of the result is a state of the pattern's automaton and what the text has promised on its
 * way there: which characters may come next (`Outlook`), and of each lookahead how far it is. What
 * lookbehinds must know of the text before is followed beside it. A lookahead is an automaton over
 * all that comes behind it; one that must not match is the complement of that.
 *
 * @module
 */

import { type CodePoints, intersectSets } from "../../automaton/code_points.ts";
import { AutomatonBuilder, determinize } from "../../automaton/regular.ts";
import { attempt, spendEffort } from "../../effort.ts";
import type { CodePointAutomaton, CodePointState, Expression } from "../../expression.ts";
import { GrammarError } from "../../grammar_error.ts";
import { Alphabet } from "./alphabet.ts";
import {
  type Assertion,
  byTarget,
  type Look,
  type MarkedAutomaton,
  markedAutomaton,
  withPoints,
} from "./assertions.ts";
import { HOPELESS, MET, Obligations, sortedBetween } from "./obligations.ts";
import { type Outlook, Outlooks } from "./outlooks.ts";
import { type PrefixState, PrefixStates } from "./prefix_states.ts";

/** Lookaheads inside each other: each is resolved while the one around it is. */
export const MAX_NESTED = 50;
/** Of making the result deterministic; it stays as it is where that takes more. */
const EASY_EFFORT = 20_000;
const PLACE_EFFORT = 1;
const PIECE_EFFORT = 0.3;
/** Of each piece some of whose obligations have been followed. */
const OPEN_EFFORT = 1;
/** Of each obligation in a key. */
const KEY_EFFORT = 0.3;

/**
 * @param marked May have marks of the assertions.
 * @throws {GrammarError} when it takes too many states or too much work.
 */
export function resolveAssertions(
  marked: Expression,
  assertions: readonly Assertion[],
): CodePointAutomaton {
  const whole = markedAutomaton(marked);
  const alphabet = new Alphabet(listSets([whole, ...assertions]));
  const letters = (points: CodePoints) => alphabet.letters(points);
  const spelled = assertions.map((one) =>
    "body" in one
      ? { ...one, body: withPoints(one.body, letters) }
      : { ...one, points: letters(one.points) },
  );
  const found = new Resolver(spelled).resolve(withPoints(whole, letters));
  const better = attempt(EASY_EFFORT, () => determinize(found));
  const isBetter = better !== undefined && better.states.length <= found.states.length;
  return { states: (isBetter ? better : found).states.map((state) => expand(state, alphabet)) };
}

function* listSets(list: readonly (Assertion | MarkedAutomaton)[]): Generator<CodePoints> {
  for (const one of list) {
    if ("points" in one) yield one.points;
    else
      for (const { edges } of "body" in one ? one.body : one)
        for (const { points } of edges) yield points;
  }
}

function expand({ accepting, edges }: CodePointState, alphabet: Alphabet): CodePointState {
  const expanded = byTarget(edges).flatMap(({ points, target }) =>
    alphabet.characters(points).map(([first, last]) => ({ first, last, target })),
  );
  spendEffort(PIECE_EFFORT * expanded.length);
  return { accepting, edges: expanded };
}

/** A place in the pattern and in a text. */
interface Place {
  readonly node: number;
  /** Undefined where nothing ahead in the pattern asks for it. */
  readonly prefix: PrefixState | undefined;
  readonly outlook: Outlook;
  /** Rising. */
  readonly obligations: readonly number[];
}

/** Some characters, and what they lead to. */
interface Piece {
  readonly first: number;
  readonly last: number;
  readonly prefix: PrefixState | undefined;
  readonly obligations: readonly number[];
}

/** A piece some of whose obligations have been followed. */
interface OpenPiece extends Omit<Piece, "obligations"> {
  readonly met: Met | undefined;
}

/** Obligations, the last one first: what comes before it is shared. */
interface Met {
  readonly number: number;
  readonly before: Met | undefined;
}

function numbersOf(last: Met | undefined): readonly number[] {
  const numbers = new Set<number>();
  for (let met = last; met !== undefined; met = met.before) numbers.add(met.number);
  return [...numbers].sort((a, b) => a - b);
}

class Resolver {
  readonly #assertions: readonly Assertion[];
  readonly #outlooks = new Outlooks();
  readonly #prefixes: PrefixStates;
  readonly #obligations = new Obligations();
  /** First obligations of lookaheads, by assertion and what stands before. */
  readonly #beginnings = new Map<string, number>();
  /** For each state of an automaton, whether what is ahead of it asks what stands before. */
  readonly #asking = new Map<MarkedAutomaton, Uint8Array>();
  #nested = 0;

  constructor(assertions: readonly Assertion[]) {
    this.#assertions = assertions;
    this.#prefixes = new PrefixStates(assertions, this.#outlooks);
    // Bodies have marks of earlier assertions only.
    for (const { kind, body } of assertions.filter((one) => "body" in one)) {
      if (kind === "ahead") this.#asking.set(body, this.#findAsking(body));
    }
  }

  /**
   * The texts that the automaton accepts.
   *
   * @param start What stands before them. Default nothing, which is right too where none asks.
   */
  resolve(
    states: MarkedAutomaton,
    start: PrefixState | undefined = this.#prefixes.start,
  ): CodePointAutomaton {
    const builder = new AutomatonBuilder();
    const numbers = new Map<string, number>();
    const places: (readonly Place[])[] = [];
    const accepts = ({ node, outlook, obligations }: Place) =>
      states[node]!.accepting &&
      outlook.edge &&
      obligations.every((one) => this.#obligations.allowsEnd(one));
    const number = (place: Place): number => {
      const { node, prefix, outlook, obligations } = place;
      const key = `${node} ${prefix?.id} ${outlook.id} ${obligations.join()}`;
      let known = numbers.get(key);
      if (known === undefined) {
        known = builder.add(accepts(place));
        numbers.set(key, known);
        places.push([place]);
      }
      return known;
    };
    const reached = new Map<string, readonly number[]>();
    const reach = (node: number, { prefix, obligations }: Piece): readonly number[] => {
      const key = `${node} ${prefix?.id} ${obligations.join()}`;
      let known = reached.get(key);
      spendEffort(PLACE_EFFORT + KEY_EFFORT * obligations.length);
      if (known === undefined) {
        known = this.#enter(states, { node, prefix, obligations }).map(number);
        reached.set(key, known);
      }
      return known;
    };
    const first = this.#enter(states, { node: 0, prefix: start, obligations: [] });
    builder.add(first.some(accepts));
    places.push(first);
    for (let i = 0; i < places.length; i++) {
      for (const place of places[i]!) {
        for (const { points, target } of states[place.node]!.edges) {
          for (const piece of this.#follow(place, points)) {
            for (const next of reach(target, piece)) {
              builder.connect(i, { first: piece.first, last: piece.last, target: next });
            }
          }
        }
      }
    }
    return builder.build();
  }

  /** A place and those that assertions lead to from there. */
  #enter(
    states: MarkedAutomaton,
    { node, prefix, obligations }: Omit<Place, "outlook">,
  ): readonly Place[] {
    const asking = this.#askingOf(states);
    const places: Place[] = [{ node, prefix, outlook: this.#outlooks.any, obligations }];
    const seen = new Set<string>();
    const found: Place[] = [];
    for (let place = places.pop(); place !== undefined; place = places.pop()) {
      const key = `${place.node} ${place.outlook.id} ${place.obligations.join()}`;
      if (seen.has(key)) continue;
      seen.add(key);
      spendEffort(PLACE_EFFORT + place.obligations.length);
      found.push(asking[place.node] === 1 ? place : { ...place, prefix: undefined });
      for (const { assertion, target } of states[place.node]!.asserts) {
        const next = this.#assert(place, assertion);
        if (next !== undefined) places.push({ ...next, node: target });
      }
    }
    return found;
  }

  /** The place with what an assertion promises; undefined where it cannot hold. */
  #assert(place: Place, index: number): Place | undefined {
    const assertion = this.#assertions[index]!;
    if (assertion.kind === "ahead") {
      const first = this.#begin(index, assertion, place.prefix);
      if (first === HOPELESS) return undefined;
      return { ...place, obligations: withObligation(place.obligations, first) };
    }
    const holds =
      assertion.kind === "peek ahead"
        ? this.#outlooks.of(assertion.points, assertion.edge)
        : place.prefix!.truths[index]!;
    const outlook = this.#outlooks.both(place.outlook, holds);
    return outlook === this.#outlooks.none ? undefined : { ...place, outlook };
  }

  #begin(index: number, look: Look, before: PrefixState | undefined): number {
    const { body, position } = look;
    const prefix = this.#askingOf(body)[0] === 1 ? before : undefined;
    const key = `${index} ${prefix?.id}`;
    let known = this.#beginnings.get(key);
    if (known === undefined) {
      if (++this.#nested > MAX_NESTED) {
        const problem = `more than ${MAX_NESTED} stand inside each other`;
        throw new GrammarError(`Cannot use the lookaheads: ${problem}`, { position });
      }
      known = this.#obligations.begin(this.resolve(body, prefix), look);
      this.#nested -= 1;
      this.#beginnings.set(key, known);
    }
    return known;
  }

  /** Where the characters of a set lead, apart from the pattern itself. */
  #follow({ prefix, outlook, obligations }: Place, points: CodePoints): readonly Piece[] {
    const ranges = outlook === this.#outlooks.any ? points : intersectSets(points, outlook.points);
    let pieces: readonly Piece[] = ranges.map(([first, last]) => {
      return { first, last, prefix: undefined, obligations: [] };
    });
    if (prefix !== undefined) {
      const edges = this.#prefixes.edges(prefix);
      pieces = pieces.flatMap((piece) =>
        sortedBetween(edges, piece.first, piece.last).map((edge) => ({
          first: Math.max(piece.first, edge.first),
          last: Math.min(piece.last, edge.last),
          prefix: edge.target,
          obligations: [],
        })),
      );
    }
    return obligations.length === 0 ? pieces : this.#followAll(pieces, obligations);
  }

  #followAll(pieces: readonly Piece[], obligations: readonly number[]): readonly Piece[] {
    let open: readonly OpenPiece[] = pieces.map(({ first, last, prefix }) => {
      return { first, last, prefix, met: undefined };
    });
    for (const one of obligations) {
      open = open.flatMap((piece) => {
        const edges = this.#obligations.edges(one, piece.first, piece.last);
        // Before the pieces are made: those of nondeterministic obligations multiply.
        spendEffort(PIECE_EFFORT + OPEN_EFFORT * edges.length);
        return edges.map(({ first, last, target }) => ({
          first: Math.max(piece.first, first),
          last: Math.min(piece.last, last),
          prefix: piece.prefix,
          met: target === MET ? piece.met : { number: target, before: piece.met },
        }));
      });
    }
    spendEffort(PIECE_EFFORT * open.length * obligations.length);
    return open.map(({ first, last, prefix, met }) => {
      return { first, last, prefix, obligations: numbersOf(met) };
    });
  }

  #askingOf(states: MarkedAutomaton): Uint8Array {
    let known = this.#asking.get(states);
    if (known === undefined) {
      known = this.#findAsking(states);
      this.#asking.set(states, known);
    }
    return known;
  }

  #findAsking(states: MarkedAutomaton): Uint8Array {
    const asking = new Uint8Array(states.length);
    const before: number[][] = states.map(() => []);
    const waiting: number[] = [];
    states.forEach(({ edges, asserts }, state) => {
      spendEffort(PLACE_EFFORT + PIECE_EFFORT * (edges.length + asserts.length));
      for (const { target } of edges) before[target]!.push(state);
      for (const { target } of asserts) before[target]!.push(state);
      if (asserts.some(({ assertion }) => this.#asks(this.#assertions[assertion]!))) {
        waiting.push(state);
      }
    });
    for (let state = waiting.pop(); state !== undefined; state = waiting.pop()) {
      if (asking[state] === 1) continue;
      asking[state] = 1;
      for (const source of before[state]!) waiting.push(source);
    }
    return asking;
  }

  #asks(assertion: Assertion): boolean {
    if (assertion.kind === "ahead") return this.#askingOf(assertion.body)[0] === 1;
    return assertion.kind !== "peek ahead";
  }
}

function withObligation(obligations: readonly number[], one: number): readonly number[] {
  if (one === MET || obligations.includes(one)) return obligations;
  return [...obligations, one].sort((a, b) => a - b);
}
