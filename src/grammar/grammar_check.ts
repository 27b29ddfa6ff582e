/**
 * What must hold of a grammar before it is compiled, and what the compiler has to know of its parts.
 *
 * Works on the list of all parts, each before what contains it, so that no depth of nesting needs a
 * deep stack, and an expression object that stands in many places is looked at once.
 *
 * @module
 */

import type { Expression, Grammar } from "./expression.ts";
import { GrammarError } from "./grammar_error.ts";

export interface GrammarFacts {
  /** Whether the expression matches the empty text. */
  readonly isNullable: (expression: Expression) => boolean;
  /** About how many automaton nodes it takes, rules counting as one. */
  readonly sizeOf: (expression: Expression) => number;
}

/** @throws {GrammarError} naming the rule, for one that is missing or begins with itself. */
export function checkGrammar(grammar: Grammar): GrammarFacts {
  if (!grammar.rules.has(grammar.root)) refuseMissing(grammar.root);
  const parts = listParts(grammar);
  const nullable = findNullable(grammar, parts);
  const circle = findLeftRecursion(grammar, nullable);
  if (circle !== undefined) throw new GrammarError(describeLeftRecursion(circle));
  const sizes = new Map<Expression, number>();
  for (const part of parts) sizes.set(part, sizeOf(part, sizes));
  return {
    isNullable: (expression) => nullable.has(expression),
    sizeOf: (expression) => sizes.get(expression)!,
  };
}

function childrenOf(expression: Expression): readonly Expression[] {
  switch (expression.kind) {
    case "sequence":
      return expression.parts;
    case "choice":
      return expression.options;
    case "repeat":
      return [expression.body];
    default:
      return [];
  }
}

/** Every expression of every rule once, children before parents. */
function listParts(grammar: Grammar): Expression[] {
  const parts: Expression[] = [];
  const seen = new Set<Expression>();
  const stack = [...grammar.rules.values()].map((expression) => ({ expression, done: false }));
  for (let entry = stack.pop(); entry !== undefined; entry = stack.pop()) {
    const { expression, done } = entry;
    if (done) {
      parts.push(expression);
      continue;
    }
    if (seen.has(expression)) continue;
    seen.add(expression);
    checkPart(grammar, expression);
    stack.push({ expression, done: true });
    for (const child of childrenOf(expression)) stack.push({ expression: child, done: false });
  }
  return parts;
}

function checkPart(grammar: Grammar, expression: Expression): void {
  if (expression.kind === "rule" && !grammar.rules.has(expression.name)) {
    refuseMissing(expression.name);
  }
  if (expression.kind === "text" && /\p{Surrogate}/u.test(expression.text)) {
    const shown = JSON.stringify(expression.text);
    throw new GrammarError(`Cannot match ${shown}: UTF-8 cannot spell half a surrogate pair`);
  }
  if (expression.kind === "repeat") {
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
function findNullable(grammar: Grammar, parts: readonly Expression[]): Set<Expression> {
  const nullable = new Set<Expression>();
  const users = new Map<Expression, Expression[]>();
  const bodyOf = (expression: Expression) =>
    expression.kind === "rule" ? [grammar.rules.get(expression.name)!] : childrenOf(expression);
  for (const part of parts) {
    for (const child of bodyOf(part)) {
      const known = users.get(child);
      if (known === undefined) users.set(child, [part]);
      else known.push(part);
    }
  }
  const waiting = new Map<Expression, number>();
  const queue: Expression[] = [];
  const add = (part: Expression): void => {
    if (nullable.has(part)) return;
    nullable.add(part);
    queue.push(part);
  };
  for (const part of parts) {
    if (part.kind === "sequence") waiting.set(part, part.parts.length);
    if (isNullableItself(part)) add(part);
  }
  for (let part = queue.pop(); part !== undefined; part = queue.pop()) {
    for (const user of users.get(part) ?? []) {
      const left = (waiting.get(user) ?? 1) - 1;
      waiting.set(user, left);
      if (left <= 0) add(user);
    }
  }
  return nullable;
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
      return part.automaton.states[0]!.accepting;
    default:
      return false;
  }
}

/** Parts that can stand at the very beginning of what the expression matches. */
function leftmostOf(expression: Expression, nullable: ReadonlySet<Expression>): Expression[] {
  if (expression.kind === "repeat" && expression.max === 0) return [];
  if (expression.kind !== "sequence") return [...childrenOf(expression)];
  const solid = expression.parts.findIndex((part) => !nullable.has(part));
  return expression.parts.slice(0, solid < 0 ? undefined : solid + 1);
}

/**
 * Looks for a circle of rules that begin with each other, depth first.
 *
 * @param grammar No rule is missing.
 * @returns The names, the first one again at the end.
 */
export function findLeftRecursion(
  grammar: Grammar,
  nullable: ReadonlySet<Expression> = findNullable(grammar, listParts(grammar)),
): readonly string[] | undefined {
  const beginnings = new Map<string, readonly string[]>();
  for (const [name, body] of grammar.rules) {
    beginnings.set(name, leftmostRules(body, nullable));
  }
  const finished = new Set<string>();
  for (const root of grammar.rules.keys()) {
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

export function describeLeftRecursion(circle: readonly string[]): string {
  const shown = circle.slice(0, MAX_NAMES).map((name) => `"${name}"`);
  return `Cannot use left recursion: rule ${shown.join(" -> ")} begins with itself`;
}

function leftmostRules(body: Expression, nullable: ReadonlySet<Expression>): string[] {
  const names = new Set<string>();
  const seen = new Set([body]);
  for (const part of seen) {
    if (part.kind === "rule") names.add(part.name);
    for (const child of leftmostOf(part, nullable)) seen.add(child);
  }
  return [...names];
}

/** Nodes of a class beyond ASCII, roughly. */
const WIDE_CLASS = 8;

function sizeOf(part: Expression, sizes: ReadonlyMap<Expression, number>): number {
  switch (part.kind) {
    case "text":
      return part.text.length;
    case "class":
      return (part.points.at(-1)?.[1] ?? 0) < 0x80 ? 1 : WIDE_CLASS;
    case "regular":
      return part.automaton.states.length;
    case "sequence":
    case "choice":
      return childrenOf(part).reduce((sum, child) => sum + sizes.get(child)!, 1);
    case "repeat": {
      const copies = part.max === Number.POSITIVE_INFINITY ? part.min + 1 : part.max;
      return copies * sizes.get(part.body)! + 1;
    }
    case "rule":
    case "bytes":
      return 1;
    default:
      return part satisfies never;
  }
}
