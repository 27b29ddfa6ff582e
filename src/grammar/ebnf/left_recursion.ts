/**
 * Rules that begin with themselves -> rules that do not, with the same texts.
 *
 * ```text
 * sum ::= sum "+" term | term        sum ::= term ("+" term)*
 * ```
 *
 * Of rules in a circle each is the choice of what begins with a rule of the circle and what does
 * not. A text of one of them so is a text that does not, of any of them, and then what may come
 * behind it until the rule itself is complete: a tail. Tails are rules of their own, one for each
 * two rules of the circle, and begin with what is left of an option behind its first rule.
 *
 * All of it is done to texts that are not empty, as an empty beginning hides circles (`a ::= b? a`):
 * a rule that matches the empty text too is its other texts or that one.
 *
 * @module
 */

import { spendEffort } from "../effort.ts";
import {
  choice,
  EMPTY,
  type Expression,
  type Grammar,
  optional,
  type RegularExpression,
  regular,
  repeat,
  rule,
  sequence,
} from "../expression.ts";
import { type Beginnings, findBeginnings } from "../grammar_check.ts";
import { GrammarError } from "../grammar_error.ts";
import { findCircles } from "./circles.ts";
import { type Split, Tails } from "./tails.ts";

/** Rules of one circle: there is a tail for each two of them. */
export const MAX_CIRCLE = 64;
/** Groups inside each other, where one of them begins with a rule of a circle. */
export const MAX_DEPTH = 500;
const PART_EFFORT = 1;
/** Of an option that is copied from a group to the one around it. */
const COPY_EFFORT = 0.1;

/**
 * The same grammar if no rule begins with itself, else one with the same root.
 *
 * @param grammar No rule is missing.
 * @throws {GrammarError} for circles of too many rules, or that lie too deep in groups.
 */
export function withoutLeftRecursion(grammar: Grammar): Grammar {
  const { rules, isNullable } = findBeginnings(grammar);
  const circles = findCircles(rules);
  return circles.length === 0 ? grammar : new Rewriting(grammar, isNullable).rewrite(circles);
}

const NOTHING: Split = { others: [], behind: [] };

class Rewriting {
  readonly #grammar: Grammar;
  readonly #isNullable: Beginnings["isNullable"];
  readonly #rules: Map<string, Expression>;
  /** Rules for the texts of others that are not empty, by what they are of. */
  readonly #solid = new Map<string, string>();
  /** The circle of each rule in one. */
  readonly #circles = new Map<string, ReadonlySet<string>>();
  readonly #waiting: string[] = [];

  constructor(grammar: Grammar, isNullable: Beginnings["isNullable"]) {
    this.#grammar = grammar;
    this.#isNullable = withNewParts(isNullable);
    this.#rules = new Map(grammar.rules);
  }

  rewrite(circles: readonly ReadonlySet<string>[]): Grammar {
    for (const circle of circles) {
      if (circle.size > MAX_CIRCLE) {
        const [name] = circle;
        throw new GrammarError(
          `Cannot use left recursion: more than ${MAX_CIRCLE} rules begin with each other, such as "${name}"`,
        );
      }
      for (const name of circle) this.#circles.set(name, circle);
    }
    for (const circle of circles) this.#rewriteCircle(circle);
    // Rules that are not in a circle, but stand at the beginning of one that is.
    for (let name = this.#waiting.pop(); name !== undefined; name = this.#waiting.pop()) {
      this.#rules.set(this.#solid.get(name)!, this.#solidOf(this.#bodyOf(name)));
    }
    return { ...this.#grammar, rules: this.#rules };
  }

  #bodyOf(name: string): Expression {
    return this.#grammar.rules.get(name)!;
  }

  #rewriteCircle(circle: ReadonlySet<string>): void {
    const splits = new Map<string, Split>();
    for (const name of circle) splits.set(name, this.#split(this.#bodyOf(name), circle, 0));
    const tails = new Tails(splits, {
      isNullable: this.#isNullable,
      solid: (part) => this.#solidOf(part),
    });
    for (const name of circle) {
      const begun = [...circle].flatMap((first) =>
        splits.get(first)!.others.map((other) => sequence([other, tails.from(first, name)])),
      );
      const isNullable = this.#isNullable(this.#bodyOf(name));
      const solid = choice(begun);
      if (isNullable) this.#rules.set(this.#solidName(name), solid);
      this.#rules.set(name, isNullable ? optional(rule(this.#solidName(name))) : solid);
    }
    for (const [name, body] of tails.rules) this.#rules.set(name, body);
  }

  #solidName(name: string): string {
    let solid = this.#solid.get(name);
    if (solid === undefined) {
      solid = `${name} not empty`;
      this.#solid.set(name, solid);
      if (!this.#circles.has(name)) this.#waiting.push(name);
    }
    return solid;
  }

  /** The texts of a rule that are not empty. */
  #solidRule(name: string): Expression {
    return rule(this.#isNullable(this.#bodyOf(name)) ? this.#solidName(name) : name);
  }

  #solidOf(part: Expression): Expression {
    return this.#isNullable(part) ? choice(this.#split(part, NO_CIRCLE, 0).others) : part;
  }

  #split(part: Expression, circle: ReadonlySet<string>, depth: number): Split {
    spendEffort(PART_EFFORT);
    if (depth > MAX_DEPTH) {
      throw new GrammarError("Cannot use left recursion: its rules have groups that nest too deep");
    }
    switch (part.kind) {
      case "rule":
        return circle.has(part.name)
          ? { others: [], behind: [{ name: part.name, rest: EMPTY }] }
          : { others: [this.#solidRule(part.name)], behind: [] };
      case "sequence":
        return this.#splitSequence(part.parts, circle, depth);
      case "choice":
        return joined(part.options.map((option) => this.#split(option, circle, depth + 1)));
      case "repeat": {
        if (part.max === 0) return NOTHING;
        if (part.max === 1) return this.#split(part.body, circle, depth + 1);
        const min = this.#isNullable(part.body) ? 0 : Math.max(part.min - 1, 0);
        const rest = repeat(part.body, { min, max: part.max - 1 });
        return followed(this.#split(part.body, circle, depth + 1), rest);
      }
      case "regular":
        return { others: [withoutEmpty(part)], behind: [] };
      case "text":
        return part.text === "" ? NOTHING : { others: [part], behind: [] };
      default:
        return { others: [part], behind: [] };
    }
  }

  /** Each part in turn is the first that is not empty, as long as those before can be. */
  #splitSequence(parts: readonly Expression[], circle: ReadonlySet<string>, depth: number): Split {
    const found: Split[] = [];
    for (const [i, part] of parts.entries()) {
      const rest = sequence(parts.slice(i + 1));
      spendEffort(PART_EFFORT * (parts.length - i));
      found.push(followed(this.#split(part, circle, depth + 1), rest));
      if (!this.#isNullable(part)) break;
    }
    return joined(found);
  }
}

/** Knows the parts that the rewriting makes too: sequences and repeats of known ones. */
function withNewParts(isKnown: Beginnings["isNullable"]): Beginnings["isNullable"] {
  const made = new Map<Expression, boolean>();
  const isNullable = (part: Expression): boolean => {
    if (isKnown(part)) return true;
    if (part.kind !== "sequence" && part.kind !== "repeat") return false;
    let known = made.get(part);
    if (known === undefined) {
      spendEffort(PART_EFFORT);
      known = part.kind === "sequence" ? part.parts.every(isNullable) : part.min === 0;
      made.set(part, known);
    }
    return known;
  };
  return isNullable;
}

const NO_CIRCLE: ReadonlySet<string> = new Set();

function joined(splits: readonly Split[]): Split {
  if (splits.length === 1) return splits[0]!;
  for (const { others, behind } of splits) {
    spendEffort(COPY_EFFORT * (others.length + behind.length));
  }
  return {
    others: splits.flatMap(({ others }) => others),
    behind: splits.flatMap(({ behind }) => behind),
  };
}

function followed({ others, behind }: Split, rest: Expression): Split {
  if (rest.kind === "sequence" && rest.parts.length === 0) return { others, behind };
  const add = (first: Expression) => (first === EMPTY ? rest : sequence([first, rest]));
  spendEffort(PART_EFFORT * behind.length);
  return {
    // The rest once, not for each of them: groups may nest deep.
    others: others.length > 1 ? [add(choice(others))] : others.map(add),
    behind: behind.map((one) => ({ name: one.name, rest: add(one.rest) })),
  };
}

/** Its start is left and never come back to. */
function withoutEmpty(part: RegularExpression): Expression {
  const [start, ...others] = part.automaton.states;
  if (start?.accepting !== true) return part;
  const moved = [start, ...others].map(({ accepting, edges }) => ({
    accepting,
    edges: edges.map((edge) => ({ ...edge, target: edge.target + 1 })),
  }));
  return regular({ states: [{ accepting: false, edges: moved[0]!.edges }, ...moved] });
}
