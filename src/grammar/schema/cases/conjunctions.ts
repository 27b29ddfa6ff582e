/**
 * Sets of schemas that a value must fit, and of schemas that it must not fit.
 *
 * Equal sets are one object, which is what ends the expansion of recursive schemas: there are only so
 * many sets, and each becomes one rule.
 *
 * @module
 */

import { spendEffort } from "../../effort.ts";
import type { SchemaNode } from "../schema_tree.ts";

/** Of each schema of a set. */
const LITERAL_EFFORT = 1.5;

export interface Literal {
  readonly node: SchemaNode;
  /** Whether the value must fit the schema, or must not. */
  readonly holds: boolean;
}

export interface Conjunction {
  /** Of all literals, in order. */
  readonly key: string;
  readonly literals: readonly Literal[];
  /** Whether it contradicts itself at first sight. */
  readonly never: boolean;
}

export class Conjunctions {
  readonly #known = new Map<string, Conjunction>();
  readonly #pairs = new Map<Conjunction, Map<Conjunction, Conjunction>>();
  /** What every value fits. */
  readonly any: Conjunction = this.#intern("", [], false);
  /** What no value fits. */
  readonly never: Conjunction = this.#intern("!", [], true);

  of(node: SchemaNode, holds = true): Conjunction {
    return this.#make([{ node, holds }]);
  }

  and(parts: readonly Conjunction[]): Conjunction {
    if (parts.length === 2) return this.#both(parts[0]!, parts[1]!);
    if (parts.some((part) => part.never)) return this.never;
    const solid = [...new Set(parts)].filter((part) => part !== this.any);
    return solid.length === 1 ? solid[0]! : this.#make(solid.flatMap((part) => part.literals));
  }

  /** Two are asked for again and again. */
  #both(a: Conjunction, b: Conjunction): Conjunction {
    if (a === b || b === this.any || a.never) return a;
    if (a === this.any || b.never) return b;
    let withA = this.#pairs.get(a);
    if (withA === undefined) {
      withA = new Map();
      this.#pairs.set(a, withA);
    }
    let known = withA.get(b);
    if (known === undefined) {
      known = this.#make([...a.literals, ...b.literals]);
      withA.set(b, known);
    }
    return known;
  }

  #make(literals: readonly Literal[]): Conjunction {
    spendEffort(LITERAL_EFFORT * literals.length);
    const rising = [...literals].sort((a, b) => a.node.id - b.node.id);
    const distinct: Literal[] = [];
    let key = "";
    for (const literal of rising) {
      const { node, holds } = literal;
      const { verdict } = node;
      if (verdict !== undefined && verdict !== holds) return this.never;
      const previous = distinct.at(-1);
      if (previous?.node === node && previous.holds !== holds) return this.never;
      if (verdict !== undefined || previous?.node === node) continue;
      distinct.push(literal);
      key += `${holds ? "+" : "-"}${node.id}`;
    }
    return this.#intern(key, distinct, false);
  }

  #intern(key: string, literals: readonly Literal[], never: boolean): Conjunction {
    let known = this.#known.get(key);
    if (known === undefined) {
      known = { key, literals, never };
      this.#known.set(key, known);
    }
    return known;
  }
}
