/**
 * Texts of a grammar, drawn by walking through its rules at random.
 *
 * @module
 */
import { ITEM_END, LIST_BEGIN } from "../../../src/grammar/distinct/distinct_bytes.ts";
import {
  type CodePointAutomaton,
  type Expression,
  type Grammar,
  type RegularExpression,
  type UnorderedExpression,
  type UnorderedPart,
  waysFrom,
} from "../../../src/grammar/expression.ts";

/** Whole number from 0 to `count` - 1. */
export type Random = (count: number) => number;

/** The same numbers for the same seed. */
export function seededRandom(seed: number): Random {
  let state = (seed * 2654435761) >>> 0;
  return (count) => {
    state = (Math.imul(state, 1664525) + 1013904223) >>> 0;
    return Math.floor((state / 2 ** 32) * count);
  };
}

/** Rounds of a repeat or a circle beyond those that must be. */
const MAX_ROUNDS = 4;
/** Rules inside one another before the shortest way out is taken. */
const MAX_DEPTH = 30;

/** Draws texts of a grammar without `bytes` but signs; undefined when no text is in it. */
export class TextSampler {
  readonly #grammar: Grammar;
  readonly #random: Random;
  /** Rules inside one another that each rule needs at least. */
  readonly #heights = new Map<string, number>();
  #mayRepeat = false;
  readonly #known = new WeakMap<CodePointAutomaton, ReturnType<typeof knownOf>>();

  constructor(grammar: Grammar, random: Random) {
    this.#grammar = grammar;
    this.#random = random;
    for (let changed = true; changed; ) {
      changed = false;
      for (const [name, body] of grammar.rules) {
        const height = this.#height(body) + 1;
        if (height >= (this.#heights.get(name) ?? Number.POSITIVE_INFINITY)) continue;
        this.#heights.set(name, height);
        changed = true;
      }
    }
  }

  /** Whether the last text has a list whose items the grammar wants to differ. */
  get mayRepeat(): boolean {
    return this.#mayRepeat;
  }

  sample(): string | undefined {
    this.#mayRepeat = false;
    const { root } = this.#grammar;
    if (this.#heights.get(root) === undefined) return undefined;
    return this.#draw({ kind: "rule", name: root }, MAX_DEPTH);
  }

  /** Infinity for what no text matches. */
  #height(expression: Expression): number {
    switch (expression.kind) {
      case "sequence":
        return Math.max(0, ...expression.parts.map((part) => this.#height(part)));
      case "choice":
        return Math.min(...expression.options.map((option) => this.#height(option)));
      case "repeat":
        return expression.min === 0 ? 0 : this.#height(expression.body);
      case "rule":
        return this.#heights.get(expression.name) ?? Number.POSITIVE_INFINITY;
      case "unordered": {
        const required = expression.parts.filter((part) => part.isRequired);
        return Math.max(0, ...required.map(({ body }) => this.#height(body)));
      }
      case "class":
        return expression.points.length > 0 ? 0 : Number.POSITIVE_INFINITY;
      case "regular":
        return expression.automaton.states.some(({ accepting }) => accepting)
          ? 0
          : Number.POSITIVE_INFINITY;
      default:
        return 0;
    }
  }

  #draw(expression: Expression, depth: number): string {
    switch (expression.kind) {
      case "text":
        return expression.text;
      case "class":
        return this.#character(expression.points);
      case "sequence":
        return expression.parts.map((part) => this.#draw(part, depth)).join("");
      case "choice":
        return this.#draw(this.#choose(expression.options, depth), depth);
      case "repeat":
        return this.#repeat(expression, depth);
      case "unordered":
        return this.#list(expression, depth);
      case "rule":
        return this.#draw(this.#grammar.rules.get(expression.name)!, depth - 1);
      case "regular":
        return this.#countedWalk(expression);
      case "bytes":
        return this.#sign(expression);
      default:
        return expression satisfies never;
    }
  }

  /** What says that items must differ is no text, and the sampler does not see to it. */
  #sign(expression: Expression): string {
    if (expression !== ITEM_END && expression !== LIST_BEGIN) {
      throw new Error("the sampler knows no bytes but signs");
    }
    this.#mayRepeat = true;
    return "";
  }

  #choose(options: readonly Expression[], depth: number): Expression {
    const heights = options.map((option) => this.#height(option));
    const lowest = Math.min(...heights);
    const most = depth > 0 ? Number.MAX_VALUE : lowest;
    const open = options.filter((_, i) => heights[i]! <= most);
    return open[this.#random(open.length)]!;
  }

  #repeat({ body, min, max }: Expression & { kind: "repeat" }, depth: number): string {
    const isPossible = this.#height(body) < Number.POSITIVE_INFINITY && depth > 0;
    const more = isPossible ? this.#random(Math.min(max - min, MAX_ROUNDS) + 1) : 0;
    return Array.from({ length: min + more }, () => this.#draw(body, depth)).join("");
  }

  /** The required parts and some of the others, shuffled. */
  #list({ parts, separator, min, max }: UnorderedExpression, depth: number): string {
    const isPossible = ({ body }: UnorderedPart) => this.#height(body) < Number.POSITIVE_INFINITY;
    const required = parts.filter((part) => part.isRequired);
    const others = parts.filter((part) => !part.isRequired && isPossible(part));
    const chosen = [...required];
    const most = Math.min(max, parts.length + MAX_ROUNDS);
    const wanted = depth > 0 ? Math.max(min, this.#random(most + 1)) : min;
    while (chosen.length < wanted && others.length > 0) {
      const [part] = others.splice(this.#random(others.length), 1);
      chosen.push(part!);
      if (part!.isRepeatable) others.push(part!);
    }
    const shuffled: UnorderedPart[] = [];
    for (const part of chosen) shuffled.splice(this.#random(shuffled.length + 1), 0, part);
    return shuffled
      .map(({ body }, i) => (i > 0 ? this.#draw(separator, depth) : "") + this.#draw(body, depth))
      .join("");
  }

  #character(ranges: readonly (readonly [number, number])[]): string {
    const [first, last] = ranges[this.#random(ranges.length)]!;
    return String.fromCodePoint(first + this.#random(last - first + 1));
  }

  /** A walk with as many characters as are wanted; the longest that was found where there is none. */
  #countedWalk(expression: RegularExpression): string {
    const { min = 0, max = Number.POSITIVE_INFINITY } = expression.counted ?? {};
    for (let tries = 0; ; tries++) {
      const { text, characters } = this.#walk(expression, min);
      const fits = characters >= min && characters <= max;
      this.#mayRepeat ||= !fits;
      if (fits || tries > 40) return text;
    }
  }

  /** At random at first, then the shortest way to the end. */
  #walk(
    expression: RegularExpression,
    min: number,
  ): { readonly text: string; readonly characters: number } {
    const { automaton } = expression;
    const { states } = automaton;
    const { ways, distances } = this.#known.get(automaton) ?? knownOf(automaton);
    this.#known.set(automaton, { ways, distances });
    let text = "";
    let characters = 0;
    for (let state = 0, left = 3 * MAX_ROUNDS + min; ; left--) {
      const { accepting } = states[state]!;
      const edges = ways[state]!;
      const isDone = left <= 0 || edges.length === 0 || this.#random(3) === 0;
      if (accepting && characters >= min && isDone) return { text, characters };
      if (accepting && left <= 0) return { text, characters };
      const best = Math.min(...edges.map(({ edge }) => distances[edge.target]!));
      const open = edges.filter(({ edge }) => left > 0 || distances[edge.target] === best);
      const { edge, begins } = open[this.#random(open.length)]!;
      const { first, last, target } = edge;
      text += this.#character([[first, last]]);
      state = target;
      if (begins) characters += 1;
    }
  }
}

function knownOf(automaton: CodePointAutomaton) {
  const ways = automaton.states.map((_, state) => waysFrom(automaton, state));
  return { ways, distances: distancesToEnd(automaton.states, ways) };
}

function distancesToEnd(
  states: CodePointAutomaton["states"],
  ways: readonly ReturnType<typeof waysFrom>[],
): number[] {
  const distances = states.map(({ accepting }) => (accepting ? 0 : Number.POSITIVE_INFINITY));
  for (let changed = true; changed; ) {
    changed = false;
    ways.forEach((edges, state) => {
      for (const { edge } of edges) {
        const { target } = edge;
        if (distances[target]! + 1 >= distances[state]!) continue;
        distances[state] = distances[target]! + 1;
        changed = true;
      }
    });
  }
  return distances;
}
