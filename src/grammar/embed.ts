/**
 * One grammar as part of another.
 *
 * @module
 */

import { spendEffort } from "./effort.ts";
import { childrenOf, type Expression, type Grammar, rule } from "./expression.ts";

export interface EmbedOptions {
  /** In front of the names of its rules. */
  readonly prefix: string;
  /** Names that stay as they are: the rules are the same in all grammars that are embedded. */
  readonly shared?: ReadonlySet<string> | undefined;
}

const NO_NAMES: ReadonlySet<string> = new Set();

/**
 * Adds a grammar's rules to `rules`.
 *
 * @returns What matches the grammar's texts.
 */
export function embed(
  rules: Map<string, Expression>,
  { rules: embedded, root }: Grammar,
  { prefix, shared = NO_NAMES }: EmbedOptions,
): Expression {
  const rename = (name: string) => (shared.has(name) ? name : prefix + name);
  for (const [name, body] of embedded) {
    const newName = rename(name);
    if (newName !== name) rules.set(newName, renamed(body, rename));
    else if (!rules.has(name)) rules.set(name, body);
  }
  return rule(rename(root));
}

const PART_EFFORT = 0.5;

/** Expressions that are not finished, and what their finished parts are collected in. */
interface Open {
  readonly expression: Expression;
  readonly parts: Expression[];
}

/** Without recursion, so that deep nesting needs no deep stack. */
function renamed(root: Expression, rename: (name: string) => string): Expression {
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
      parts.push(next.kind === "rule" ? rule(rename(next.name)) : next);
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
    case "unordered":
      return {
        ...expression,
        parts: expression.parts.map((part, i) => ({ ...part, body: children[i]! })),
        separator: children.at(-1)!,
      };
    default:
      return expression;
  }
}
