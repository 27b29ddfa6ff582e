/**
 * Parts of a regular expression, put together: one after another, any of them, again and again.
 *
 * `^` and `$` say something about a place in the whole text, which an `Expression` cannot. So each
 * part is kept as up to four languages: texts that may stand anywhere, texts that must begin where
 * the whole text begins, texts that must end where it ends, and texts that must do both. Joining
 * two parts keeps what fits together: behind a text that must end the whole, only the empty text
 * can follow. When all is joined, the four together are the language of the pattern, exactly.
 *
 * @module
 */

import { EMPTY, type Expression, repeat } from "../expression.ts";
import { AssertionMet } from "./assertions/assertions.ts";
import { checkCommitments } from "./commitment.ts";
import { type Anchored, ONLY_EMPTY, type Texts, textsOf } from "./regex_part.ts";

export interface RepeatBounds {
  readonly min: number;
  /** May be Infinity. */
  readonly max: number;
}

function isAnchored({ start, end, both }: Anchored): boolean {
  return start !== undefined || end !== undefined || both !== undefined;
}

function isNullable(part: Anchored): boolean {
  return textsOf(part).some((texts) => texts?.nullable === true);
}

function isOnlyEmpty(part: Anchored): boolean {
  return textsOf(part).every((texts) => texts === undefined || texts.expression === EMPTY);
}

/** One after another. */
function joinTexts(parts: readonly Texts[]): Texts {
  const solid = parts.filter(({ expression }) => expression !== EMPTY);
  if (solid.length <= 1) return solid[0] ?? ONLY_EMPTY;
  const last = parts.findIndex(({ nullable }) => !nullable);
  return {
    expression: { kind: "sequence", parts: solid.map(({ expression }) => expression) },
    nullable: last < 0,
    leftmost: parts.slice(0, last < 0 ? undefined : last + 1),
  };
}

/** The same parts, literal texts that meet as one. */
function mergeLiterals(parts: readonly Texts[]): Texts[] {
  const merged: Texts[] = [];
  let literals: string[] = [];
  const flush = (): void => {
    if (literals.length > 0) merged.push(literal(literals.join("")));
    literals = [];
  };
  for (const part of parts) {
    if (part.expression.kind === "text") {
      literals.push(part.expression.text);
    } else if (part.expression !== EMPTY) {
      flush();
      merged.push(part);
    }
  }
  flush();
  return merged;
}

/** @param value Not empty. */
export function literal(value: string): Texts {
  return { expression: { kind: "text", text: value }, nullable: false };
}

function join(...parts: readonly (Texts | undefined)[]): Texts | undefined {
  const present = parts.filter((part) => part !== undefined);
  return present.length < parts.length ? undefined : joinTexts(present);
}

/** Any of the options. */
export function either(options: readonly (Texts | undefined)[]): Texts | undefined {
  const distinct = new Map<Expression, Texts>();
  for (const option of options) if (option !== undefined) distinct.set(option.expression, option);
  const list = [...distinct.values()];
  if (list.length <= 1) return list[0];
  return {
    expression: { kind: "choice", options: list.map(({ expression }) => expression) },
    nullable: list.some(({ nullable }) => nullable),
    leftmost: list,
  };
}

/** The texts where the condition, another part's way to match the empty text, can be met. */
function onlyIf(texts: Texts | undefined, ...conditions: (Texts | undefined)[]): Texts | undefined {
  return conditions.some((condition) => condition?.nullable === true) ? texts : undefined;
}

/** All parts, one after another. */
export function concatenate(parts: readonly Anchored[]): Anchored {
  if (parts.length === 1) return parts[0]!;
  let whole: Anchored = { free: ONLY_EMPTY };
  let run: Texts[] = [];
  const flush = (): void => {
    if (run.length > 0) whole = concatenateTwo(whole, { free: joinTexts(mergeLiterals(run)) });
    run = [];
  };
  for (const part of parts) {
    if (isPlain(part)) {
      run.push(part.free!);
    } else {
      flush();
      whole = concatenateTwo(whole, part);
    }
  }
  flush();
  return whole;
}

/** Whether nothing but its texts has to be known of the part. */
function isPlain(part: Anchored): boolean {
  const { free, commitments, lineStart, lineEnd } = part;
  const marked = commitments !== undefined || lineStart || lineEnd;
  return free !== undefined && !marked && !isAnchored(part);
}

function concatenateTwo(a: Anchored, b: Anchored): Anchored {
  checkLineAnchors(a, b);
  checkCommitments(a.commitments, b);
  const kept = isNullable(b) ? (a.commitments ?? []) : [];
  const commitments = [...kept, ...(b.commitments ?? [])];
  const bothEmpty = [a.end, a.both].some((left) =>
    onlyIf(onlyIf(ONLY_EMPTY, left), b.start, b.both),
  );
  return {
    free: join(a.free, b.free),
    start: either([join(a.start, b.free), onlyIf(b.start, a.free, a.start)]),
    end: either([join(a.free, b.end), onlyIf(a.end, b.free, b.end)]),
    both: either([
      join(a.start, b.end),
      onlyIf(b.both, a.free, a.start),
      onlyIf(a.both, b.free, b.end),
      bothEmpty ? ONLY_EMPTY : undefined,
    ]),
    commitments: commitments.length > 0 ? commitments : undefined,
    lineStart: a.lineStart || b.lineStart,
    lineEnd: b.lineEnd || a.lineEnd,
  };
}

function checkLineAnchors(a: Anchored, b: Anchored): void {
  if (b.lineStart && !isOnlyEmpty(a)) throw new AssertionMet();
  if (a.lineEnd && !isOnlyEmpty(b)) throw new AssertionMet();
}

/** Any of the parts. */
export function alternate(options: readonly Anchored[]): Anchored {
  if (options.length === 1) return options[0]!;
  const commitments = options.flatMap((option) => option.commitments ?? []);
  return {
    free: either(options.map(({ free }) => free)),
    start: either(options.map(({ start }) => start)),
    end: either(options.map(({ end }) => end)),
    both: either(options.map(({ both }) => both)),
    commitments: commitments.length > 0 ? commitments : undefined,
    lineStart: options.some(({ lineStart }) => lineStart),
    lineEnd: options.some(({ lineEnd }) => lineEnd),
  };
}

/**
 * The part again and again. Only the first round that is not empty can have to begin the whole
 * text, and only the last such round to end it. A round that can be empty stands in for missing
 * ones, so the lower bound falls away.
 */
export function repeatAnchored(part: Anchored, { min, max }: RepeatBounds): Anchored {
  if (max === 0) return { free: ONLY_EMPTY };
  if (max > 1) {
    checkLineAnchors(part, part);
    checkCommitments(part.commitments, part);
  }
  const { free, start, end, both, commitments, lineStart, lineEnd } = part;
  const marks = { commitments, lineStart, lineEnd };
  const whole = repeatTexts(free, min, max);
  if (!isAnchored(part))
    return { ...marks, free: whole, repeated: { body: free, isFixed: min === max } };

  /** Rounds anywhere, beside `others` that are one round each. */
  const rounds = (...others: (Texts | undefined)[]): Texts | undefined => {
    const padded = [free, ...others].some((texts) => texts?.nullable === true);
    const least = padded ? 0 : Math.max(0, min - others.length);
    return repeatTexts(free, least, max - others.length);
  };
  const single = min <= 1 || [free, start, end].some((texts) => texts?.nullable === true);
  return {
    ...marks,
    free: whole,
    start: join(start, rounds(start)),
    end: join(rounds(end), end),
    both: either([
      max >= 2 ? join(start, rounds(start, end), end) : undefined,
      single ? both : onlyIf(ONLY_EMPTY, both),
    ]),
  };
}

function repeatTexts(texts: Texts | undefined, min: number, max: number): Texts | undefined {
  if (texts === undefined) return min === 0 ? ONLY_EMPTY : undefined;
  if (max === 0 || texts.expression === EMPTY) return ONLY_EMPTY;
  if (min === 1 && max === 1) return texts;
  return {
    expression: repeat(texts.expression, { min, max }),
    nullable: min === 0 || texts.nullable,
    leftmost: [texts],
  };
}
