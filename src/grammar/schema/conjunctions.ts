/**
 * Sets of schemas that a value must fit, and of schemas that it must not fit.
 *
 * Equal sets are one object, which is what ends the expansion of recursive schemas: there are only so
 * many sets, and each becomes one rule.
 *
 * @module
 */

import { spendEffort } from "../effort.ts";
import type { SchemaNode } from "./schema_tree.ts";

/** Of each schema of a set. */
const LITERAL_EFFORT = 0.9;

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
  /** What every value fits. */
  readonly any: Conjunction = this.#intern("", [], false);
  /** What no value fits. */
  readonly never: Conjunction = this.#intern("!", [], true);

  of(node: SchemaNode, holds = true): Conjunction {
    return this.#make([{ node, holds }]);
  }

  and(...parts: readonly Conjunction[]): Conjunction {
    if (parts.some((part) => part.never)) return this.never;
    const solid = [...new Set(parts)].filter((part) => part !== this.any);
    return solid.length === 1 ? solid[0]! : this.#make(solid.flatMap((part) => part.literals));
  }

  #make(literals: readonly Literal[]): Conjunction {
    spendEffort(LITERAL_EFFORT * literals.length);
    const byKey = new Map<number, Literal>();
    for (const literal of literals) {
      const { node, holds } = literal;
      if (typeof node.value === "boolean") {
        if (node.value !== holds) return this.never;
        continue;
      }
      if (Object.keys(node.value).length === 0) {
        if (!holds) return this.never;
        continue;
      }
      if (byKey.get(node.id) !== undefined && byKey.get(node.id)!.holds !== holds)
        return this.never;
      byKey.set(node.id, literal);
    }
    const sorted = [...byKey.values()].sort((a, b) => a.node.id - b.node.id);
    const key = sorted.map(({ node, holds }) => `${holds ? "+" : "-"}${node.id}`).join("");
    return this.#intern(key, sorted, false);
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
