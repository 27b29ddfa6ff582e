/**
 * What may come behind a rule of a circle until another one, or the same, is complete.
 *
 * @module
 */

import { spendEffort } from "../effort.ts";
import { choice, EMPTY, type Expression, repeat, rule, sequence } from "../expression.ts";

const STEP_EFFORT = 1;

/** The texts of an expression that are not empty. */
export interface Split {
  /** Those that begin with no rule of the circle. */
  readonly others: readonly Expression[];
  /** What follows a text, not empty, of a rule of the circle. */
  readonly behind: readonly { readonly name: string; readonly rest: Expression }[];
}

/** Behind a rule comes `rest`, not empty, and then the rule of that name is complete. */
interface Step {
  readonly to: string;
  readonly rest: Expression;
}

export interface TailsOptions {
  readonly isNullable: (part: Expression) => boolean;
  /** The texts of an expression that are not empty. */
  solid(part: Expression): Expression;
}

export class Tails {
  /** Tails that have been asked for, and those they need. */
  readonly rules = new Map<string, Expression>();
  readonly #steps: ReadonlyMap<string, readonly Step[]>;
  /** Each rule, and those that are complete with it. */
  readonly #same: ReadonlyMap<string, ReadonlySet<string>>;
  readonly #isSingle: boolean;

  /** @param splits Of all rules of one circle. */
  constructor(splits: ReadonlyMap<string, Split>, { isNullable, solid }: TailsOptions) {
    this.#isSingle = splits.size === 1;
    const steps = new Map<string, Step[]>();
    const same = new Map<string, string[]>();
    for (const name of splits.keys()) {
      steps.set(name, []);
      same.set(name, []);
    }
    for (const [to, { behind }] of splits) {
      for (const { name, rest } of behind) {
        if (isNullable(rest)) same.get(name)!.push(to);
        if (rest !== EMPTY) steps.get(name)!.push({ to, rest: solid(rest) });
      }
    }
    this.#same = new Map([...same.keys()].map((name) => [name, reach(name, same)]));
    this.#steps = steps;
  }

  /** From where the rule `first` is complete to where `last` is. */
  from(first: string, last: string): Expression {
    if (this.#isSingle) return repeat(choice(this.#stepsFrom(first).map(({ rest }) => rest)));
    const name = nameOf(first, last);
    const waiting = this.rules.has(name) ? [] : [first];
    for (let from = waiting.pop(); from !== undefined; from = waiting.pop()) {
      const known = nameOf(from, last);
      if (this.rules.has(known)) continue;
      const steps = this.#stepsFrom(from);
      spendEffort(STEP_EFFORT * (1 + steps.length));
      const options = steps.map(({ to, rest }) => sequence([rest, rule(nameOf(to, last))]));
      if (this.#same.get(from)!.has(last)) options.push(EMPTY);
      this.rules.set(known, choice(options));
      for (const { to } of steps) waiting.push(to);
    }
    return rule(name);
  }

  #stepsFrom(first: string): readonly Step[] {
    return [...this.#same.get(first)!].flatMap((name) => this.#steps.get(name)!);
  }
}

function nameOf(first: string, last: string): string {
  return `${first} up to ${last}`;
}

/** The name and all that it leads to. */
function reach(name: string, next: ReadonlyMap<string, readonly string[]>): ReadonlySet<string> {
  const reached = new Set([name]);
  for (const one of reached) {
    spendEffort(STEP_EFFORT);
    for (const other of next.get(one)!) reached.add(other);
  }
  return reached;
}
