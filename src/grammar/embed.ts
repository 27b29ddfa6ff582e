/**
 * One grammar as part of another.
 *
 * @module
 */

import { spendEffort } from "./effort.ts";
import { childrenOf, type Expression, type Grammar, rule } from "./expression.ts";

/**
 * Adds a grammar's rules to `rules`, with `prefix` in front of their names.
 *
 * @returns What matches the grammar's texts.
 */
export function embed(
  rules: Map<string, Expression>,
  prefix: string,
  { rules: embedded, root }: Grammar,
): Expression {
  for (const [name, body] of embedded) rules.set(prefix + name, renamed(body, prefix));
  return rule(prefix + root);
}

const PART_EFFORT = 0.5;

/** Expressions that are not finished, and what their finished parts are collected in. */
interface Open {
  readonly expression: Expression;
  readonly parts: Expression[];
}

/** Without recursion, so that deep nesting needs no deep stack. */
function renamed(root: Expression, prefix: string): Expression {
  const result: Expression[] = [];
  const open: Open[] = [{ expression: { kind: "sequence", parts: [root] }, parts: result }];
  while (open.length > 0) {
    spendEffort(PART_EFFORT);
    const { expression, parts } = open.at(-1)!;
    const children = childrenOf(expression);
    const next = children[parts.length];
    if (next === undefined) {
      open.pop();
      open.at(-1)?.parts.push(withChildren(expression, parts));
    } else if (childrenOf(next).length > 0) {
      open.push({ expression: next, parts: [] });
    } else {
      parts.push(next.kind === "rule" ? rule(prefix + next.name) : next);
    }
  }
  return result[0]!;
}

function withChildren(expression: Expression, children: readonly Expression[]): Expression {
  switch (expression.kind) {
    case "sequence":
      return { ...expression, parts: children };
    case "choice":
      return { ...expression, options: children };
    case "repeat":
      return { ...expression, body: children[0]! };
    default:
      return expression;
  }
}
