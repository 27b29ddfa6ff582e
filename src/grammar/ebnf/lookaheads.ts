/**
 * Lookaheads of grammars, from where they are read to where they are resolved.
 *
 * While a grammar is read a lookahead is a reference to a rule that does not exist; what it looks for
 * is kept here. `withoutLookahead` in `lookahead_product.ts` puts grammars in their place that have
 * none. What a lookahead looks at is the rest of the text of the grammar, to its end.
 *
 * @module
 */

import { automatonOf } from "../automaton/code_point_automaton.ts";
import { ANY_CODE_POINT } from "../automaton/code_points.ts";
import { spendEffort } from "../effort.ts";
import {
  type CodePointAutomaton,
  childrenOf,
  type Expression,
  type RuleExpression,
  repeat,
  rule,
  sequence,
} from "../expression.ts";
import { GrammarError } from "../grammar_error.ts";

/** Expressions that a lookahead looks for, rules written out. */
const MAX_WRITTEN = 10_000;
/** Rules and groups inside one another. */
const MAX_DEPTH = 200;
const PART_EFFORT = 1;

/** What messages about lookaheads begin with. */
const REFUSAL = "Cannot use the lookahead";

const ANY_TEXT = repeat({ kind: "class", points: ANY_CODE_POINT });

export interface Lookahead {
  /** What the rest of the text begins with, or does not. */
  readonly body: Expression;
  readonly negated: boolean;
  /** Whether it is all of the rest. */
  readonly isWhole?: boolean;
  /** In the source. */
  readonly position: number;
}

export class Lookaheads {
  readonly #list = new Map<string, Lookahead>();
  /** The one whose rest is being written. */
  #written: Lookahead | undefined;

  get size(): number {
    return this.#list.size;
  }

  /** What stands for a lookahead until it is resolved. */
  add(lookahead: Lookahead): RuleExpression {
    const name = `lookahead ${this.#list.size}`;
    this.#list.set(name, lookahead);
    return rule(name);
  }

  /**
   * Does what may find that lookaheads cannot be resolved.
   *
   * @param errorAt Makes an error about a place of the source.
   */
  resolve<T>(work: () => T, errorAt: (message: string, position: number) => GrammarError): T {
    try {
      return work();
    } catch (error) {
      if (!(error instanceof GrammarError && error.message.startsWith(REFUSAL))) throw error;
      const [first] = this.#list.values();
      throw errorAt(error.message, (this.#written ?? first!).position);
    }
  }

  get(name: string): Lookahead | undefined {
    return this.#list.get(name);
  }

  /**
   * The texts that the rest is one of, or none of where the lookahead is negated.
   *
   * @throws {GrammarError} when what it looks for is not regular.
   */
  restOf(lookahead: Lookahead, rules: ReadonlyMap<string, Expression>): CodePointAutomaton {
    this.#written = lookahead;
    const body = new Writing({ rules, lookaheads: this }).of(lookahead.body);
    const rest = automatonOf(lookahead.isWhole === true ? body : sequence([body, ANY_TEXT]));
    this.#written = undefined;
    return rest;
  }
}

interface WritingOptions {
  readonly rules: ReadonlyMap<string, Expression>;
  readonly lookaheads: Lookaheads;
}

/** Writes out the rules that an expression refers to. */
class Writing {
  readonly #options: WritingOptions;
  readonly #open = new Set<string>();
  #written = 0;

  constructor(options: WritingOptions) {
    this.#options = options;
  }

  of(expression: Expression, depth = 0): Expression {
    spendEffort(PART_EFFORT);
    if (++this.#written > MAX_WRITTEN || depth > MAX_DEPTH) this.#refuse("is too large");
    switch (expression.kind) {
      case "sequence":
        return { kind: "sequence", parts: this.#all(expression, depth) };
      case "choice":
        return { kind: "choice", options: this.#all(expression, depth) };
      case "repeat":
        return { ...expression, body: this.of(expression.body, depth + 1) };
      case "rule":
        return this.#rule(expression.name, depth);
      case "bytes":
        return this.#refuse("has special tokens, which are no text");
      case "unordered":
        return this.#refuse("has parts in any order");
      case "regular":
        if (expression.counted !== undefined) this.#refuse("counts characters");
        return expression;
      default:
        return expression;
    }
  }

  #all(expression: Expression, depth: number): readonly Expression[] {
    return childrenOf(expression).map((part) => this.of(part, depth + 1));
  }

  #rule(name: string, depth: number): Expression {
    const body = this.#options.rules.get(name);
    if (this.#options.lookaheads.get(name) !== undefined)
      this.#refuse("has another lookahead inside");
    if (this.#open.has(name)) this.#refuse(`refers to rule "${name}", which refers to itself`);
    this.#open.add(name);
    const written = this.of(body!, depth + 1);
    this.#open.delete(name);
    return written;
  }

  #refuse(what: string): never {
    throw new GrammarError(
      `${REFUSAL}: what it looks for ${what}, and no automaton could follow it`,
    );
  }
}
