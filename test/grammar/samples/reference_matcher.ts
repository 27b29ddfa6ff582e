/**
 * Whether a grammar matches a text, by trying everything: slow, and simple enough to be right.
 *
 * @module
 */
import { hasCodePoint } from "../../../src/grammar/automaton/code_points.ts";
import { accepts } from "../../../src/grammar/automaton/regular.ts";
import type { Expression, Grammar, UnorderedExpression } from "../../../src/grammar/expression.ts";

/**
 * Without `bytes`.
 *
 * @param ahead Whether the rule of a name, which is a lookahead, holds before the rest of the text.
 */
export function matches(
  grammar: Grammar,
  text: string,
  ahead: (name: string, rest: string) => boolean | undefined = () => undefined,
): boolean {
  const characters = Array.from(text);
  const { length } = characters;

  /** For each rule and place, where its matches are known to end: more are found round by round. */
  const found = new Map<string, Map<number, Set<number>>>();
  /** Whether the last round found an end, or a place to look at. */
  let grown = false;
  const known = (name: string, from: number): Set<number> => {
    const places = found.get(name) ?? new Map<number, Set<number>>();
    found.set(name, places);
    if (!places.has(from)) {
      places.set(from, new Set());
      grown = true;
    }
    return places.get(from)!;
  };

  /** Where a match of the expression that begins at `from` can end. */
  const ends = (expression: Expression, from: number): Set<number> => {
    switch (expression.kind) {
      case "text": {
        const to = from + Array.from(expression.text).length;
        return new Set(characters.slice(from, to).join("") === expression.text ? [to] : []);
      }
      case "class": {
        const point = characters[from]?.codePointAt(0);
        const found = point !== undefined && hasCodePoint(expression.points, point);
        return new Set(found ? [from + 1] : []);
      }
      case "sequence": {
        let reached = new Set([from]);
        for (const part of expression.parts) reached = endsOfAll(part, reached);
        return reached;
      }
      case "choice":
        return new Set(expression.options.flatMap((option) => [...ends(option, from)]));
      case "repeat": {
        const { body, min, max } = expression;
        let reached = new Set([from]);
        const all = new Set(min === 0 ? reached : []);
        // Longer than the text, a repeat has rounds on the empty text, which change nothing.
        for (let count = 1; count <= Math.min(max, min + length + 1); count++) {
          reached = endsOfAll(body, reached);
          if (count >= min) for (const end of reached) all.add(end);
        }
        return all;
      }
      case "rule": {
        const holds = ahead(expression.name, characters.slice(from).join(""));
        if (holds !== undefined) return new Set(holds ? [from] : []);
        return known(expression.name, from);
      }
      case "regular": {
        const candidates = Array.from({ length: length - from + 1 }, (_, i) => from + i);
        return new Set(
          candidates.filter((end) =>
            accepts(expression.automaton, characters.slice(from, end).join("")),
          ),
        );
      }
      case "unordered":
        return listEnds(expression, { from, written: [] });
      case "bytes":
        throw new Error("the reference knows characters only");
      default:
        return expression satisfies never;
    }
  };
  /** Where lists can end that go on with any of the parts that may still come. */
  const listEnds = (
    list: UnorderedExpression,
    { from, written }: { readonly from: number; readonly written: readonly number[] },
  ): Set<number> => {
    const { parts, separator, min, max } = list;
    const isWhole = parts.every((part, i) => !part.isRequired || written.includes(i));
    const all = new Set(isWhole && written.length >= min && written.length <= max ? [from] : []);
    if (written.length >= max) return all;
    const starts = written.length === 0 ? new Set([from]) : ends(separator, from);
    parts.forEach(({ body, isRepeatable }, i) => {
      if (written.includes(i) && !isRepeatable) return;
      for (const start of endsOfAll(body, starts)) {
        for (const end of listEnds(list, { from: start, written: [...written, i] })) all.add(end);
      }
    });
    return all;
  };
  const endsOfAll = (expression: Expression, starts: ReadonlySet<number>) =>
    new Set([...starts].flatMap((start) => [...ends(expression, start)]));

  const whole = known(grammar.root, 0);
  while (grown) {
    grown = false;
    for (const [name, places] of found) {
      for (const [from, all] of places) {
        const before = all.size;
        for (const end of ends(grammar.rules.get(name)!, from)) all.add(end);
        if (all.size > before) grown = true;
      }
    }
  }
  return whole.has(length);
}
