/**
 * What is known of a place in a text from all that stands before it: which lookbehinds hold.
 *
 * The bodies of all lookbehinds are followed at once, each from every place on, so that one state
 * says for all of them whether they hold. Where one ends in an assertion about the next character,
 * whether it holds depends on that: the state says for which characters it does.
 *
 * @module
 */

import { ANY_CODE_POINT, intersectSets } from "../../automaton/code_points.ts";
import { MAX_REGULAR_STATES, splitEdges } from "../../automaton/regular.ts";
import { spendEffort } from "../../effort.ts";
import type { CodePointEdge } from "../../expression.ts";
import { GrammarError } from "../../grammar_error.ts";
import type { Assertion, MarkedAutomaton, PeekBehind } from "./assertions.ts";
import type { Outlook, Outlooks } from "./outlooks.ts";

export interface PrefixState {
  readonly id: number;
  /** For each assertion about what stands before, when it holds. */
  readonly truths: readonly (Outlook | undefined)[];
}

export interface PrefixEdge {
  readonly first: number;
  readonly last: number;
  readonly target: PrefixState;
}

/** A body that is followed. Its states are numbered on from those of the tracks before it. */
interface Track {
  readonly assertion: number;
  readonly states: MarkedAutomaton;
  readonly offset: number;
  readonly negated: boolean;
  /** Whether it holds at the very beginning, for one character. */
  readonly edge: boolean;
  readonly position: number;
}

interface KnownState extends PrefixState {
  /** States of all tracks in which a text may be, and what must come next for each. */
  readonly items: ReadonlyMap<number, Outlook>;
  edges: readonly PrefixEdge[] | undefined;
}

/** Stands for the place itself among the targets of edges, so that no character is left out. */
const HERE = -1;
const EVERYTHING: readonly CodePointEdge[] = ANY_CODE_POINT.map(([first, last]) => ({
  first,
  last,
  target: HERE,
}));

const EDGE_EFFORT = 1.5;
const ITEM_EFFORT = 0.5;
const SEEN_EFFORT = 0.01;

export class PrefixStates {
  readonly start: PrefixState;
  readonly #assertions: readonly Assertion[];
  readonly #outlooks: Outlooks;
  readonly #tracks: readonly Track[];
  /** By the number of a state. */
  readonly #trackOf: readonly Track[];
  readonly #states = new Map<string, KnownState>();
  readonly #list: KnownState[] = [];

  constructor(assertions: readonly Assertion[], outlooks: Outlooks) {
    this.#assertions = assertions;
    this.#outlooks = outlooks;
    this.#tracks = listTracks(assertions);
    this.#trackOf = this.#tracks.flatMap((track) => track.states.map(() => track));
    this.start = this.#state([], true);
  }

  /** Where the characters behind a place lead; together they are all characters. */
  edges({ id }: PrefixState): readonly PrefixEdge[] {
    const state = this.#list[id]!;
    state.edges ??= this.#findEdges(state);
    return state.edges;
  }

  #findEdges({ items }: KnownState): readonly PrefixEdge[] {
    const edges = [...EVERYTHING];
    for (const [number, outlook] of items) {
      const { offset, states } = this.#trackOf[number]!;
      for (const { points, target } of states[number - offset]!.edges) {
        for (const [first, last] of intersectSets(points, outlook.points)) {
          edges.push({ first, last, target: target + offset });
        }
        spendEffort(ITEM_EFFORT * (1 + outlook.points.length + points.length));
      }
    }
    spendEffort(EDGE_EFFORT * edges.length);
    return splitEdges(edges).map(({ first, last, targets }) => {
      return { first, last, target: this.#state(targets, false) };
    });
  }

  /** @param reached Numbers of the states that a character has led to. */
  #state(reached: readonly number[], isStart: boolean): KnownState {
    const items = new Map<number, Outlook>();
    const truths: (Outlook | undefined)[] = [];
    spendEffort(this.#assertions.length + reached.length);
    for (const track of this.#tracks) {
      truths[track.assertion] = this.#follow(track, { reached, isStart, items, truths });
    }
    spendEffort(ITEM_EFFORT * items.size);
    const numbers = [...items].sort(([a], [b]) => a - b);
    const key = `${isStart} ${numbers.map(([number, { id }]) => `${number}:${id}`).join(" ")}`;
    let known = this.#states.get(key);
    if (known === undefined) {
      if (this.#list.length === MAX_REGULAR_STATES) {
        throw new GrammarError(
          `Cannot use the lookbehinds: they need more than ${MAX_REGULAR_STATES} states`,
        );
      }
      known = { id: this.#list.length, truths, items, edges: undefined };
      this.#list.push(known);
      this.#states.set(key, known);
    }
    return known;
  }

  /** Adds the states of one track, and finds when its assertion holds. */
  #follow(
    { states, offset, negated, edge, position }: Track,
    {
      reached,
      isStart,
      items,
      truths,
    }: {
      readonly reached: readonly number[];
      readonly isStart: boolean;
      readonly items: Map<number, Outlook>;
      readonly truths: readonly (Outlook | undefined)[];
    },
  ): Outlook {
    const outlooks = this.#outlooks;
    let truth = edge && isStart ? outlooks.any : outlooks.none;
    const waiting = [offset];
    const add = (number: number, outlook: Outlook): void => {
      const before = items.get(number) ?? outlooks.none;
      const after = outlooks.either(before, outlook);
      if (after === before) return;
      items.set(number, after);
      waiting.push(number);
    };
    items.set(offset, outlooks.any);
    spendEffort(SEEN_EFFORT * reached.length);
    for (const number of reached) {
      if (number >= offset && number < offset + states.length) add(number, outlooks.any);
    }
    for (let number = waiting.pop(); number !== undefined; number = waiting.pop()) {
      spendEffort(ITEM_EFFORT);
      const outlook = items.get(number)!;
      const { accepting, asserts } = states[number - offset]!;
      if (accepting) truth = outlooks.either(truth, outlook);
      for (const { assertion, target } of asserts) {
        const holds = this.#holds(assertion, truths, position);
        add(target + offset, outlooks.both(outlook, holds));
      }
    }
    return negated ? outlooks.not(truth) : truth;
  }

  #holds(index: number, truths: readonly (Outlook | undefined)[], position: number): Outlook {
    const assertion = this.#assertions[index]!;
    if (assertion.kind === "peek ahead") {
      return this.#outlooks.of(assertion.points, assertion.edge);
    }
    if (assertion.kind !== "ahead") return truths[index]!;
    throw new GrammarError(
      "Cannot use the lookahead inside the lookbehind: it looks at more than one character",
      { position },
    );
  }
}

function listTracks(assertions: readonly Assertion[]): readonly Track[] {
  const tracks: Track[] = [];
  let offset = 0;
  for (const [index, assertion] of assertions.entries()) {
    if (assertion.kind !== "behind" && assertion.kind !== "peek behind") continue;
    const isPeek = assertion.kind === "peek behind";
    const states = isPeek ? oneCharacter(assertion) : assertion.body;
    tracks.push({
      assertion: index,
      states,
      offset,
      negated: !isPeek && assertion.negated,
      edge: isPeek && assertion.edge,
      position: isPeek ? 0 : assertion.position,
    });
    offset += states.length;
  }
  return tracks;
}

function oneCharacter({ points }: PeekBehind): MarkedAutomaton {
  return [
    { accepting: false, edges: [{ points, target: 1 }], asserts: [] },
    { accepting: true, edges: [], asserts: [] },
  ];
}
