/**
 * How deep the values of a grammar for JSON may nest, so that lines are indented no further.
 *
 * @module
 */
import { childrenOf, type Expression } from "../../expression.ts";

const BRACKETS: readonly (readonly [open: string, close: string])[] = [
  ["{", "}"],
  ["[", "]"],
];

/** Passes over all rules. One finds the depth of each, unless rules refer to each other in circles. */
const MAX_PASSES = 24;

/**
 * Objects and lists around the innermost value.
 *
 * @param most Deeper is as deep: values of some schemas nest without end.
 */
export function nestingOf(
  rules: ReadonlyMap<string, Expression>,
  { root, most }: { readonly root: string; readonly most: number },
): number {
  const depths = new Map<string, number>();
  const names = referredFirst(rules, root);
  for (let pass = 0; pass < MAX_PASSES; pass++) {
    let isStable = true;
    for (const name of names) {
      const depth = Math.min(most, depthOf(rules.get(name)!, depths));
      if (depth === (depths.get(name) ?? 0)) continue;
      depths.set(name, depth);
      isStable = false;
    }
    if (isStable) return depths.get(root) ?? 0;
  }
  return most;
}

function depthOf(expression: Expression, depths: ReadonlyMap<string, number>): number {
  if (expression.kind === "rule") return depths.get(expression.name) ?? 0;
  let inner = 0;
  for (const part of childrenOf(expression)) inner = Math.max(inner, depthOf(part, depths));
  return isEnclosed(expression) ? inner + 1 : inner;
}

function isEnclosed(expression: Expression): boolean {
  if (expression.kind !== "sequence") return false;
  const [first, last] = [expression.parts[0], expression.parts.at(-1)];
  if (first?.kind !== "text" || last?.kind !== "text") return false;
  return BRACKETS.some(([open, close]) => first.text === open && last.text === close);
}

/** Names of the rules that a rule needs, each behind those that it refers to. No recursion over rules. */
function referredFirst(rules: ReadonlyMap<string, Expression>, root: string): readonly string[] {
  const seen = new Set([root]);
  const ordered: string[] = [];
  const open = [{ name: root, next: namesIn(rules.get(root)!).values() }];
  for (let top = open.at(-1); top !== undefined; top = open.at(-1)) {
    const { value: name, done } = top.next.next();
    if (done) {
      ordered.push(top.name);
      open.pop();
    } else if (!seen.has(name) && rules.has(name)) {
      seen.add(name);
      open.push({ name, next: namesIn(rules.get(name)!).values() });
    }
  }
  return ordered;
}

function namesIn(expression: Expression, names = new Set<string>()): ReadonlySet<string> {
  if (expression.kind === "rule") names.add(expression.name);
  for (const part of childrenOf(expression)) namesIn(part, names);
  return names;
}
