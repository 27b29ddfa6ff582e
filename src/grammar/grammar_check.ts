/**
 * What must hold of a grammar before it is compiled, and what the compiler has to know of its parts.
 *
 * Works on the list of all parts, each before what contains it, so that no depth of nesting needs a
 * deep stack, and an expression object that stands in many places is looked at once.
 *
 * @module
 */

import { spendEffort } from "./effort.ts";
import { childrenOf, type Expression, type Grammar } from "./expression.ts";
import { GrammarError } from "./grammar_error.ts";

const PART_EFFORT = 2;
/** In place of a number: the children are being listed. */
const OPEN = -1;

export interface GrammarFacts {
  /** Whether the expression matches the empty text. */
  readonly isNullable: (expression: Expression) => boolean;
  /** About how many automaton nodes it takes, rules counting as one. */
  readonly sizeOf: (expression: Expression) => number;
}

/** Every expression of every rule once, children before parents, and the place of each. */
interface Parts {
  readonly list: readonly Expression[];
  readonly places: ReadonlyMap<Expression, number>;
}

/** @throws {GrammarError} naming the rule, for one that is missing or begins with itself. */
export function checkGrammar(grammar: Grammar): GrammarFacts {
  if (!grammar.rules.has(grammar.root)) refuseMissing(grammar.root);
  const parts = listParts(grammar);
  const isNullable = findNullable(grammar, parts);
  const circle = findCircle(listBeginnings(grammar, isNullable));
  if (circle !== undefined) throw new GrammarError(describeLeftRecursion(circle));
  const { list, places } = parts;
  const sizes = new Float64Array(list.length);
  const size = (part: Expression) => sizes[places.get(part)!]!;
  list.forEach((part, place) => {
    sizes[place] = sizeOf(part, size);
  });
  return { isNullable, sizeOf: size };
}

function listParts(grammar: Grammar): Parts {
  const list: Expression[] = [];
  const places = new Map<Expression, number>();
  const open = [...grammar.rules.values()];
  for (let part = open.at(-1); part !== undefined; part = open.at(-1)) {
    const place = places.get(part);
    if (place === undefined) {
      spendEffort(PART_EFFORT);
      checkPart(grammar, part);
      places.set(part, OPEN);
      for (const child of childrenOf(part)) if (!places.has(child)) open.push(child);
      continue;
    }
    open.pop();
    if (place === OPEN) places.set(part, list.push(part) - 1);
  }
  return { list, places };
}

function checkPart(grammar: Grammar, expression: Expression): void {
  if (expression.kind === "rule" && !grammar.rules.has(expression.name)) {
    refuseMissing(expression.name);
  }
  if (expression.kind === "text" && /\p{Surrogate}/u.test(expression.text)) {
    const shown = JSON.stringify(expression.text);
    throw new GrammarError(`Cannot match ${shown}: UTF-8 cannot spell half a surrogate pair`);
  }
  if (expression.kind === "repeat" || expression.kind === "unordered") {
    const { min, max } = expression;
    const whole = (count: number) => Number.isSafeInteger(count) && count >= 0;
    if (!whole(min) || !(whole(max) || max === Number.POSITIVE_INFINITY) || max < min) {
      throw new GrammarError(`Cannot repeat from ${min} to ${max} times: these are no bounds`);
    }
  }
}

function refuseMissing(name: string): never {
  throw new GrammarError(`Cannot find rule "${name}": the grammar does not define it`);
}

/** A part becomes nullable at most once, and only then are the parts around it looked at again. */
function findNullable(grammar: Grammar, { list, places }: Parts): GrammarFacts["isNullable"] {
  const users: (number[] | undefined)[] = [];
  const bodyOf = (expression: Expression) =>
    expression.kind === "rule" ? [grammar.rules.get(expression.name)!] : childrenOf(expression);
  /** Parts of a sequence that are not known to be nullable yet; one for all other expressions. */
  const waiting = new Int32Array(list.length).fill(1);
  const nullable = new Uint8Array(list.length);
  const queue: number[] = [];
  const add = (place: number): void => {
    if (nullable[place] === 1) return;
    nullable[place] = 1;
    queue.push(place);
  };
  list.forEach((part, place) => {
    for (const child of bodyOf(part)) {
      const childPlace = places.get(child)!;
      const known = users[childPlace];
      if (known === undefined) users[childPlace] = [place];
      else known.push(place);
    }
    if (part.kind === "sequence") waiting[place] = part.parts.length;
    // No part of it is empty.
    if (part.kind === "unordered") waiting[place] = list.length + 1;
    if (isNullableItself(part)) add(place);
  });
  for (let place = queue.pop(); place !== undefined; place = queue.pop()) {
    for (const user of users[place] ?? []) {
      waiting[user]! -= 1;
      if (waiting[user]! <= 0) add(user);
    }
  }
  return (expression) => nullable[places.get(expression)!] === 1;
}

function isNullableItself(part: Expression): boolean {
  switch (part.kind) {
    case "text":
      return part.text === "";
    case "sequence":
      return part.parts.length === 0;
    case "repeat":
      return part.min === 0;
    case "regular":
      return part.automaton.states[0]!.accepting && (part.counted?.min ?? 0) === 0;
    default:
      return false;
  }
}

/** Parts that can stand at the very beginning of what the expression matches. */
function leftmostOf(
  expression: Expression,
  isNullable: GrammarFacts["isNullable"],
): readonly Expression[] {
  if (expression.kind === "repeat" && expression.max === 0) return [];
  if (expression.kind === "unordered") return expression.parts.map(({ body }) => body);
  if (expression.kind !== "sequence") return childrenOf(expression);
  const solid = expression.parts.findIndex((part) => !isNullable(part));
  return expression.parts.slice(0, solid < 0 ? undefined : solid + 1);
}

/** What is known of the beginnings of rules. */
export interface Beginnings {
  readonly isNullable: GrammarFacts["isNullable"];
  /** For each rule, those that can stand at its very beginning. */
  readonly rules: ReadonlyMap<string, readonly string[]>;
}

/** @throws {GrammarError} when a rule is missing. */
export function findBeginnings(grammar: Grammar): Beginnings {
  const isNullable = findNullable(grammar, listParts(grammar));
  return { isNullable, rules: listBeginnings(grammar, isNullable) };
}

function listBeginnings(
  grammar: Grammar,
  isNullable: GrammarFacts["isNullable"],
): ReadonlyMap<string, readonly string[]> {
  const beginnings = new Map<string, readonly string[]>();
  for (const [name, body] of grammar.rules) {
    beginnings.set(name, leftmostRules(body, isNullable));
  }
  return beginnings;
}

/**
 * Looks for a circle of rules that begin with each other, depth first.
 *
 * @returns The names, the first one again at the end.
 */
function findCircle(
  beginnings: ReadonlyMap<string, readonly string[]>,
): readonly string[] | undefined {
  const finished = new Set<string>();
  for (const root of beginnings.keys()) {
    const path = new Map<string, Iterator<string>>();
    const enter = (name: string) => path.set(name, beginnings.get(name)![Symbol.iterator]());
    if (!finished.has(root)) enter(root);
    const names = path.size > 0 ? [root] : [];
    while (names.length > 0) {
      const name = names.at(-1)!;
      const { value: next, done } = path.get(name)!.next();
      if (done === true) {
        finished.add(name);
        path.delete(name);
        names.pop();
      } else if (path.has(next)) {
        return [...names.slice(names.indexOf(next)), next];
      } else if (!finished.has(next)) {
        enter(next);
        names.push(next);
      }
    }
  }
  return undefined;
}

/** Rules of a circle that an error lists. */
const MAX_NAMES = 8;

function describeLeftRecursion(circle: readonly string[]): string {
  const shown = circle.slice(0, MAX_NAMES).map((name) => `"${name}"`);
  return `Cannot use left recursion: rule ${shown.join(" -> ")} begins with itself`;
}

function leftmostRules(body: Expression, isNullable: GrammarFacts["isNullable"]): string[] {
  const names = new Set<string>();
  const seen = new Set([body]);
  for (const part of seen) {
    if (part.kind === "rule") names.add(part.name);
    for (const child of leftmostOf(part, isNullable)) seen.add(child);
  }
  return [...names];
}

/** Nodes of a class beyond ASCII, roughly. */
const WIDE_CLASS = 8;

function sizeOf(part: Expression, size: (child: Expression) => number): number {
  switch (part.kind) {
    case "text":
      return part.text.length;
    case "class":
      return (part.points.at(-1)?.[1] ?? 0) < 0x80 ? 1 : WIDE_CLASS;
    case "regular":
      return part.automaton.states.length;
    case "sequence":
    case "choice":
    case "unordered":
      return childrenOf(part).reduce((sum, child) => sum + size(child), 1);
    case "repeat": {
      const copies = part.max === Number.POSITIVE_INFINITY ? part.min + 1 : part.max;
      return copies * size(part.body) + 1;
    }
    case "rule":
    case "bytes":
      return 1;
    default:
      return part satisfies never;
  }
}
