/**
 * Circles of rules that begin with each other.
 *
 * @module
 */

import { spendEffort } from "../effort.ts";

const STEP_EFFORT = 0.5;

/** A rule that is being looked into. */
interface Visit {
  readonly name: string;
  readonly next: Iterator<string>;
}

/**
 * The largest sets of rules each of which begins with each other one (Tarjan, "Depth-first search
 * and linear graph algorithms", 1972), without those of one rule that does not begin with itself.
 *
 * @param beginnings For each rule, those that can stand at its very beginning.
 */
export function findCircles(
  beginnings: ReadonlyMap<string, readonly string[]>,
): readonly ReadonlySet<string>[] {
  const circles: Set<string>[] = [];
  const numbers = new Map<string, number>();
  /** The lowest number that a rule is known to lead back to. */
  const lowest = new Map<string, number>();
  const open: string[] = [];
  const isOpen = new Set<string>();
  const visits: Visit[] = [];
  const enter = (name: string): void => {
    lowest.set(name, numbers.size);
    numbers.set(name, numbers.size);
    open.push(name);
    isOpen.add(name);
    visits.push({ name, next: beginnings.get(name)![Symbol.iterator]() });
  };
  const lower = (name: string, to: number): void => {
    lowest.set(name, Math.min(lowest.get(name)!, to));
  };
  const leave = (name: string): void => {
    if (lowest.get(name) !== numbers.get(name)) return;
    const circle = new Set<string>();
    for (let one: string | undefined; one !== name; ) {
      one = open.pop()!;
      isOpen.delete(one);
      circle.add(one);
    }
    if (circle.size > 1 || beginnings.get(name)!.includes(name)) circles.push(circle);
  };
  for (const root of beginnings.keys()) {
    if (!numbers.has(root)) enter(root);
    for (let visit = visits.at(-1); visit !== undefined; visit = visits.at(-1)) {
      spendEffort(STEP_EFFORT);
      const { value: next, done } = visit.next.next();
      if (done === true) {
        visits.pop();
        leave(visit.name);
        const before = visits.at(-1);
        if (before !== undefined) lower(before.name, lowest.get(visit.name)!);
      } else if (!numbers.has(next)) {
        enter(next);
      } else if (isOpen.has(next)) {
        lower(visit.name, numbers.get(next)!);
      }
    }
  }
  return circles;
}
