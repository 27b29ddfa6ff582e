/**
 * Puts the parts of a rule together while it is read: groups inside each other, without recursion.
 *
 * @module
 */

import { choice, type Expression, repeat, sequence } from "../expression.ts";

/** A group that is open, or a whole rule. */
interface Group {
  readonly position: number;
  /** What ends it; empty for a whole rule. */
  readonly close: string;
  readonly options: Expression[];
  /** Of the option being read. */
  parts: Expression[];
  /** Whether a repetition may follow. */
  repeatable: boolean;
}

function makeGroup(position: number, close: string): Group {
  return { position, close, options: [], parts: [], repeatable: false };
}

export class ExpressionGroups {
  readonly #outer: Group[] = [];
  #group: Group;

  /** @param position Where the rule begins. */
  constructor(position: number) {
    this.#group = makeGroup(position, "");
  }

  /** Where the innermost group begins. */
  get position(): number {
    return this.#group.position;
  }

  /** What ends the innermost group; empty outside of groups. */
  get close(): string {
    return this.#group.close;
  }

  open(position: number, close: string): void {
    this.#outer.push(this.#group);
    this.#group = makeGroup(position, close);
  }

  /** Ends the innermost group, of which there is one, and returns what is in it. */
  leave(): Expression {
    const whole = this.finish();
    this.#group = this.#outer.pop()!;
    return whole;
  }

  add(part: Expression): void {
    this.#group.parts.push(part);
    this.#group.repeatable = true;
  }

  /** Adds what no repetition may follow. */
  addOnce(part: Expression): void {
    this.add(part);
    this.#group.repeatable = false;
  }

  /** Begins another option. */
  or(): void {
    const group = this.#group;
    group.options.push(sequence(group.parts));
    group.parts = [];
    group.repeatable = false;
  }

  /** Repeats the last part; false when there is none, or it is a repetition. */
  repeat(bounds: { readonly min?: number; readonly max?: number }): boolean {
    const part = this.#group.repeatable ? this.#group.parts.pop() : undefined;
    if (part === undefined) return false;
    this.addOnce(repeat(part, bounds));
    return true;
  }

  /** What is in the innermost group. */
  finish(): Expression {
    this.or();
    return choice(this.#group.options);
  }
}
