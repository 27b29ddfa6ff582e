/**
 * Cases of arrays -> expressions, with rules only where items must be counted or told apart.
 *
 * @module
 */

import { largestOf } from "../../../extremes.ts";
import { ITEM_END, LIST_BEGIN } from "../../distinct/distinct_bytes.ts";
import { choice, type Expression, NEVER, repeat, sequence } from "../../expression.ts";
import { type ArrayShape, mergeItems } from "../cases/array_shape.ts";
import type { Conjunction } from "../cases/conjunctions.ts";
import type { ArrayFact, ContainsFact } from "../cases/facts.ts";
import type { CaseWriter } from "./case_writer.ts";
import { distinctItems } from "./distinct_items.ts";
import { beforeClose, beforeItem, COMMA, enclosed } from "./json_grammar.ts";
import type { Machine, Move } from "./machine.ts";

export function arrayExpression(facts: readonly ArrayFact[], writer: CaseWriter): Expression {
  const shape = mergeItems(facts, writer.analysis);
  const contains = facts.filter((fact): fact is ContainsFact => fact.kind === "contains");
  const unique = facts.find((fact) => fact.kind === "unique");
  const { min, max } = shape;
  if (min > max) return NEVER;
  const distinct =
    unique === undefined || max < 2
      ? "apart"
      : distinctItems({ shape, contains, writer, path: unique.path });
  if (distinct === "apart") return enclosed("[", contentOf(shape, contains, writer), "]");
  if (distinct !== "remembered") return enclosed("[", writer.expand(distinct), "]");
  const refer: CaseWriter["refer"] = (value) => sequence([writer.refer(value), ITEM_END]);
  const content = contentOf(shape, contains, { ...writer, refer });
  return enclosed("[", sequence([LIST_BEGIN, content]), "]");
}

function contentOf(
  shape: ArrayShape,
  contains: readonly ContainsFact[],
  writer: CaseWriter,
): Expression {
  if (contains.length === 0) return plainItems(shape, writer);
  return writer.expand(new CountingMachine(shape, contains, writer));
}

/** Items of which only the number matters. */
function plainItems({ prefix, rest, min, max }: ArrayShape, { refer }: CaseWriter): Expression {
  const { length } = prefix;
  const left = max - length;
  if (left <= 0) {
    const count = Math.min(length, max);
    return behind(count, beforeClose(count > 0));
  }
  const bounds = { min: Math.max(min - length, 0), max: left };
  const more = sequence([COMMA, refer(rest)]);
  if (length > 0) return behind(length, sequence([repeat(more, bounds), beforeClose(true)]));
  const inner = { min: Math.max(bounds.min - 1, 0), max: left - 1 };
  const content = sequence([
    beforeItem(false),
    refer(rest),
    repeat(more, inner),
    beforeClose(true),
  ]);
  return min > 0 ? content : choice([content, beforeClose(false)]);

  /** The first items, from the last to the first, each with what may follow it. */
  function behind(count: number, tail: Expression): Expression {
    let all = tail;
    for (let i = count - 1; i >= 0; i--) {
      const started = i > 0;
      const one = sequence([beforeItem(started), refer(prefix[i]!), all]);
      all = i < min ? one : choice([one, beforeClose(started)]);
    }
    return all;
  }
}

interface State {
  /** Items written, as far as it matters. */
  readonly size: number;
  /** For each `contains`, the items that it counted, as far as it matters. */
  readonly counts: readonly number[];
}

/** Items of which some must fit further schemas. */
class CountingMachine implements Machine<State> {
  readonly start: State;
  readonly #shape: ArrayShape;
  readonly #contains: readonly ContainsFact[];
  readonly #writer: CaseWriter;
  /** From here on, the number of items makes no difference. */
  readonly #maxSize: number;

  constructor(shape: ArrayShape, contains: readonly ContainsFact[], writer: CaseWriter) {
    this.#shape = shape;
    this.#contains = contains;
    this.#writer = writer;
    this.start = { size: 0, counts: contains.map(() => 0) };
    const { prefix, min, max } = shape;
    const places = contains.map(({ from }) => from);
    const bound = max < Number.POSITIVE_INFINITY ? max : min;
    this.#maxSize = largestOf(places, Math.max(1, prefix.length, bound));
  }

  key({ size, counts }: State): string {
    return `${size} ${counts.join()}`;
  }

  started({ size }: State): boolean {
    return size > 0;
  }

  accepts({ size, counts }: State): boolean {
    return size >= this.#shape.min && this.#contains.every(({ min }, i) => counts[i]! >= min);
  }

  moves({ size, counts }: State): Move<State>[] {
    const { prefix, rest, max } = this.#shape;
    if (size >= max) return [];
    const { analysis, refer } = this.#writer;
    let choices = [{ value: prefix[size] ?? rest, counts }];
    this.#contains.forEach((fact, i) => {
      if (size < fact.from) return;
      const isCounted = fact.max < Number.POSITIVE_INFINITY;
      const wanted = analysis.conjunction(fact.node, fact.holds);
      const unwanted = isCounted ? analysis.conjunction(fact.node, !fact.holds) : undefined;
      choices = choices.flatMap((one) => {
        const others = unwanted === undefined ? one.value : join(one.value, unwanted);
        const outside = { ...one, value: others };
        const count = one.counts[i]!;
        if (isCounted ? count >= fact.max : count >= fact.min) return [outside];
        const next = one.counts.with(i, count + 1);
        return [outside, { value: join(one.value, wanted), counts: next }];
      });
    });
    function join(a: Conjunction, b: Conjunction): Conjunction {
      return analysis.conjunctions.and([a, b]);
    }
    return choices
      .filter(({ value }) => !value.never)
      .map(({ value, counts: next }) => ({
        item: refer(value),
        next: { size: Math.min(size + 1, this.#maxSize), counts: next },
      }));
  }
}
