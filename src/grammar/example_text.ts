/**
 * A short text of a grammar, to show what it asks for.
 *
 * @module
 */

import { largestOf } from "../extremes.ts";
import {
  type ChoiceExpression,
  type Expression,
  type Grammar,
  type RegularExpression,
  type UnorderedExpression,
  waysFrom,
} from "./expression.ts";

/** Rules inside one another before the shortest way out is taken. */
const MAX_DEPTH = 12;
/** Parts that are written, and UTF-16 units of them all; beyond either there is no example. */
const MAX_PARTS = 10_000;
const MAX_UNITS = 1_000_000;
const NEVER_ENDS = Number.POSITIVE_INFINITY;
/** Characters that are shown where there is a choice, the best first. */
const SHOWN = Array.from("aA0 -_.:/@", (character) => character.charCodeAt(0));

/**
 * Nothing where no text is found that the grammar has, or it is long; that items must differ is not
 * seen to.
 */
export function exampleText(grammar: Grammar): string | undefined {
  return new ExampleWriter(grammar).text();
}

class ExampleWriter {
  readonly #grammar: Grammar;
  /** Rules inside one another that each rule needs at least. */
  readonly #heights = new Map<string, number>();
  #parts = 0;
  #units = 0;
  #isLong = false;

  constructor(grammar: Grammar) {
    this.#grammar = grammar;
    for (let changed = true; changed; ) {
      changed = false;
      for (const [name, body] of grammar.rules) {
        const height = this.#heightOf(body) + 1;
        if (height >= (this.#heights.get(name) ?? NEVER_ENDS)) continue;
        this.#heights.set(name, height);
        changed = true;
      }
    }
  }

  text(): string | undefined {
    const { root } = this.#grammar;
    if (!this.#heights.has(root)) return undefined;
    const text = this.#write({ kind: "rule", name: root }, MAX_DEPTH);
    return this.#isLong ? undefined : text;
  }

  #heightOf(expression: Expression): number {
    switch (expression.kind) {
      case "sequence":
        return expression.parts.reduce((most, part) => Math.max(most, this.#heightOf(part)), 0);
      case "choice":
        return expression.options.reduce(
          (least, option) => Math.min(least, this.#heightOf(option)),
          NEVER_ENDS,
        );
      case "repeat":
        return expression.min === 0 ? 0 : this.#heightOf(expression.body);
      case "unordered":
        return this.#listHeight(expression);
      case "rule":
        return this.#heights.get(expression.name) ?? NEVER_ENDS;
      case "class":
        return expression.points.length > 0 ? 0 : NEVER_ENDS;
      case "regular":
        return expression.automaton.states.some(({ accepting }) => accepting) ? 0 : NEVER_ENDS;
      default:
        return 0;
    }
  }

  #listHeight({ parts, min }: UnorderedExpression): number {
    const heights = parts.map(({ body }) => this.#heightOf(body));
    const required = heights.filter((_, i) => parts[i]!.isRequired);
    const others = heights.filter((_, i) => !parts[i]!.isRequired).sort((a, b) => a - b);
    const canRepeat = parts.some((part) => part.isRepeatable);
    const more = Math.max(0, min - required.length);
    const last = canRepeat ? others[0] : others[more - 1];
    return largestOf(required, more > 0 ? (last ?? NEVER_ENDS) : 0);
  }

  /** Nothing more once the text is too long. */
  #write(expression: Expression, depth: number): string {
    if (this.#isLong || ++this.#parts > MAX_PARTS) return this.#stop();
    const text = this.#writeKind(expression, depth);
    this.#units += text.length;
    return this.#units > MAX_UNITS ? this.#stop() : text;
  }

  #stop(): string {
    this.#isLong = true;
    return "";
  }

  #writeKind(expression: Expression, depth: number): string {
    switch (expression.kind) {
      case "text":
        return expression.text;
      case "class":
        return characterOf(expression.points);
      case "sequence":
        return expression.parts.map((part) => this.#write(part, depth)).join("");
      case "choice":
        return this.#write(this.#optionOf(expression, depth), depth);
      case "repeat":
        return this.#repeated(this.#write(expression.body, depth), expression.min);
      case "unordered":
        return this.#list(expression, depth);
      case "rule":
        return this.#rule(expression.name, depth);
      case "regular":
        return shortestText(expression);
      case "bytes":
        return "";
      default:
        return expression satisfies never;
    }
  }

  #repeated(text: string, times: number): string {
    return text.length * times > MAX_UNITS ? this.#stop() : text.repeat(times);
  }

  #rule(name: string, depth: number): string {
    // Any JSON, and any string.
    if (name === "value" || name === "string") return '"a"';
    return this.#write(this.#grammar.rules.get(name)!, depth - 1);
  }

  /** The first that is more than null, while there is room for it. */
  #optionOf({ options }: ChoiceExpression, depth: number): Expression {
    const heights = options.map((option) => this.#heightOf(option));
    const lowest = heights.reduce((least, height) => Math.min(least, height), NEVER_ENDS);
    const most = Math.max(lowest, depth);
    const fitting = options.filter((_, i) => heights[i]! <= most);
    const isNull = (one: Expression) => one.kind === "text" && one.text === "null";
    return fitting.find((one) => !isNull(one)) ?? fitting[0]!;
  }

  #list({ parts, separator, min, max }: UnorderedExpression, depth: number): string {
    const room = (body: Expression) => this.#heightOf(body) <= depth;
    const required = parts.filter((part) => part.isRequired);
    const others = parts.filter(
      (part) => !part.isRequired && this.#heightOf(part.body) < NEVER_ENDS,
    );
    const chosen = new Set(required);
    for (const part of others) {
      if (chosen.size < max && !part.isRepeatable && room(part.body)) chosen.add(part);
    }
    for (const part of others) if (chosen.size < Math.max(min, 1)) chosen.add(part);
    return parts
      .filter((part) => chosen.has(part))
      .map(({ body }) => this.#write(body, depth))
      .join(this.#write(separator, depth));
  }
}

function characterOf(ranges: readonly (readonly [first: number, last: number])[]): string {
  const shown = SHOWN.find((point) =>
    ranges.some(([first, last]) => first <= point && point <= last),
  );
  return String.fromCodePoint(shown ?? ranges[0]![0]);
}

/** By breadth: the shortest way to each state, and to each number of characters, is found first. */
function shortestText(expression: RegularExpression): string {
  const { min, max } = expression.counted ?? { min: 0, max: Number.POSITIVE_INFINITY };
  const { states } = expression.automaton;
  const ways: Way[] = [{ state: 0, characters: 0, text: "" }];
  const known = new Set<string>();
  for (const { state, characters, text } of ways) {
    const { accepting } = states[state]!;
    if ((accepting && characters >= min) || ways.length > MAX_PARTS) return text;
    for (const { edge, begins } of waysFrom(expression.automaton, state)) {
      const { first, last, target } = edge;
      const more = characters + (begins ? 1 : 0);
      if (more > max) continue;
      // Those beyond the least number are alike, unless there is a largest one.
      const count = max === Number.POSITIVE_INFINITY ? Math.min(min, more) : more;
      const key = `${target} ${count}`;
      if (known.has(key)) continue;
      known.add(key);
      ways.push({ state: target, characters: count, text: text + characterOf([[first, last]]) });
    }
  }
  return "";
}

interface Way {
  readonly state: number;
  readonly characters: number;
  readonly text: string;
}
