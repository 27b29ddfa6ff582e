/**
 * Cases of objects -> rules.
 *
 * Members come in any order, those that the schema names once each. Keys that it does not name may
 * come twice, as in all of JSON; then the last one counts, and what is enforced holds for that one too.
 * Where they are counted, or some of them must differ from others, none comes twice.
 * Where the schema's order is asked for, or some member must differ from others, the named ones
 * come first, in its order.
 *
 * @module
 */

import { textsOf } from "../../automaton/regular.ts";
import { ITEM_END, LIST_BEGIN } from "../../distinct/distinct_bytes.ts";
import { choice, type Expression, NEVER, sequence, type UnorderedPart } from "../../expression.ts";
import { GrammarError } from "../../grammar_error.ts";
import type { Conjunction } from "../cases/conjunctions.ts";
import type { ObjectFact } from "../cases/facts.ts";
import {
  type KeyClass,
  mergeMembers,
  type NamedMember,
  type ObjectShape,
} from "../cases/object_shape.ts";
import type { CaseWriter } from "./case_writer.ts";
import { beforeClose, beforeItem, COLON, COMMA, enclosed, QUOTE } from "./json_grammar.ts";
import type { Machine, Move } from "./machine.ts";
import { keyExpression, namedKeyExpression } from "./string_grammar.ts";
import { hasMoreValues } from "./value_count.ts";

/** Members in any order: each that may come next is a way to read on, and those are limited. */
export const MAX_MEMBERS = 8_000;
/** Facts of the kind "some" at once. */
const MAX_SOMES = 8;
/** Keys that a pattern allows, which are named one by one. */
const MAX_FEW = 1_024;
/** So many keys no answer has. */
const ENDLESS = 10_000;

interface State {
  /** Named members that were passed. */
  readonly index: number;
  /** Members written, as far as it matters. */
  readonly count: number;
  /** Bits of the somes that are satisfied. */
  readonly satisfied: number;
}

export function objectExpression(facts: readonly ObjectFact[], writer: CaseWriter): Expression {
  const merged = mergeMembers(facts, writer.analysis);
  const shape = merged.somes.length === 0 ? merged : withFewKeysNamed(merged, writer);
  const { named, classes, somes, min } = shape;
  const required = named.filter((member) => member.required).length;
  const isFree = writer.order === "any" && somes.length === 0;
  // A key that comes twice is one member, and of its values the last one counts.
  const isCounted = classes.length > 0 && min - required > 1;
  const isRemembered = isCounted || (classes.length > 0 && somes.length > 0);
  if (isCounted) requireEnough(shape, writer);
  const keys = { isRemembered };
  const content = isFree
    ? membersInAnyOrder(shape, writer, keys)
    : writer.expand(new ObjectMachine(shape, writer, keys));
  return enclosed("{", isRemembered ? sequence([LIST_BEGIN, content]) : content, "}");
}

/** Keys of a class that has few of them are named ones: when all are written, none is left to differ. */
function withFewKeysNamed(shape: ObjectShape, { path }: CaseWriter): ObjectShape {
  const named = [...shape.named];
  const classes = shape.classes.filter(({ language, value, somes }) => {
    const keys = textsOf(language, ENDLESS);
    if (keys === undefined) return true;
    if (keys.length > MAX_FEW) {
      throw new GrammarError(
        `Cannot enforce the schema: some member must differ from others, of ${keys.length} keys`,
        { path },
      );
    }
    for (const key of keys) named.push({ key, value, required: false, somes });
    return false;
  });
  return { ...shape, named, classes };
}

/** How the keys that the schema does not name are told apart. */
interface Keys {
  /** Whether none may come twice. */
  readonly isRemembered: boolean;
}

/** There are that many keys whose values are sure to exist. */
function requireEnough({ named, classes, min, minPath }: ObjectShape, { analysis }: CaseWriter) {
  const exists = ({ value }: NamedMember | KeyClass) => hasMoreValues(value, 0, analysis);
  let count = named.filter(exists).length;
  for (const one of classes.filter(exists)) {
    count += textsOf(one.language, min)?.length ?? min;
    if (count >= min) return;
  }
  throw new GrammarError(
    `Cannot enforce "minProperties": there may be fewer than ${min} different keys`,
    { path: minPath },
  );
}

function membersInAnyOrder(shape: ObjectShape, writer: CaseWriter, keys: Keys): Expression {
  const { named, classes, min, max } = shape;
  const required = named.filter((member) => member.required).length;
  const least = Math.max(min, required);
  if (named.length + classes.length > MAX_MEMBERS) {
    throw new GrammarError(
      `Cannot enforce the schema: an object has more than ${MAX_MEMBERS} properties`,
      { path: writer.path },
    );
  }
  const parts = partsOf(shape, writer, keys);
  const isEnough = classes.length > 0 || parts.length >= least;
  if (!isEnough || least > max) return NEVER;
  const empty = least === 0 ? [beforeClose(false)] : [];
  if (parts.length === 0 || max === 0) return choice(empty);
  const list = {
    kind: "unordered",
    parts,
    separator: COMMA,
    min: Math.max(least, 1),
    max,
  } as const;
  return choice([sequence([beforeItem(false), list, beforeClose(true)]), ...empty]);
}

function partsOf({ named, classes }: ObjectShape, writer: CaseWriter, keys: Keys): UnorderedPart[] {
  const member = (key: Expression, value: Conjunction) =>
    sequence([key, COLON, writer.refer(value)]);
  return [
    ...named.map(({ key, value, required }) => ({
      body: member(namedKeyExpression(key, writer.path), value),
      isRequired: required,
      isRepeatable: false,
    })),
    ...classes.map((one) => ({
      body: writer.share(member(classKey(one, writer, keys), one.value)),
      isRequired: false,
      isRepeatable: true,
    })),
  ];
}

function classKey(
  { language, format }: KeyClass,
  { spell }: CaseWriter,
  { isRemembered }: Keys,
): Expression {
  const key =
    format === undefined ? keyExpression(language) : sequence([QUOTE, spell(format), QUOTE]);
  return isRemembered ? sequence([key, ITEM_END]) : key;
}

class ObjectMachine implements Machine<State> {
  readonly start: State = { index: 0, count: 0, satisfied: 0 };
  readonly #shape: ObjectShape;
  readonly #writer: CaseWriter;
  readonly #keys: readonly Expression[];
  readonly #classKeys: readonly Expression[];
  /** Beyond it, a count makes no difference. */
  readonly #maxCount: number;

  constructor(shape: ObjectShape, writer: CaseWriter, keys: Keys) {
    this.#shape = shape;
    this.#writer = writer;
    const { named, classes, somes, min, max } = shape;
    this.#maxCount = max < Number.POSITIVE_INFINITY ? max : Math.max(min, 1);
    this.#keys = named.map(({ key }) => namedKeyExpression(key, writer.path));
    this.#classKeys = classes.map((one) => classKey(one, writer, keys));
    if (somes.length > MAX_SOMES) {
      throw new GrammarError(
        "Cannot enforce the schema: too many members must differ from other members",
        {
          path: writer.path,
        },
      );
    }
  }

  key({ index, count, satisfied }: State): string {
    return `${index} ${count} ${satisfied}`;
  }

  started({ count }: State): boolean {
    return count > 0;
  }

  accepts({ index, count, satisfied }: State): boolean {
    const { named, somes, min } = this.#shape;
    return index === named.length && count >= min && satisfied === 2 ** somes.length - 1;
  }

  moves(state: State): Move<State>[] {
    const { named, classes } = this.#shape;
    const isFull = state.count >= this.#shape.max;
    const member = named[state.index];
    if (member !== undefined) {
      const skip = member.required ? [] : [{ next: { ...state, index: state.index + 1 } }];
      return [...(isFull ? [] : this.#named(state, member)), ...skip];
    }
    return isFull ? [] : classes.flatMap((one, i) => this.#other(state, one, i));
  }

  #named(state: State, { value, somes }: NamedMember): Move<State>[] {
    const key = this.#keys[state.index]!;
    return this.#choices(state, somes, value).map(({ bits, fits }) => ({
      item: this.#member(key, fits),
      next: {
        ...state,
        index: state.index + 1,
        count: this.#increase(state.count),
        satisfied: state.satisfied | bits,
      },
    }));
  }

  #other(state: State, { value, somes }: KeyClass, index: number): Move<State>[] {
    const key = this.#classKeys[index]!;
    return this.#choices(state, somes, value).map(({ bits, fits }) => ({
      item: this.#member(key, fits),
      next: {
        ...state,
        count: this.#increase(state.count),
        satisfied: state.satisfied | bits,
      },
    }));
  }

  /** The somes that a member may satisfy, and what its value must fit then. */
  #choices(
    { satisfied }: State,
    somes: readonly number[],
    value: Conjunction,
  ): { readonly bits: number; readonly fits: Conjunction }[] {
    const { conjunctions } = this.#writer.analysis;
    let choices = [{ bits: 0, fits: value }];
    for (const i of somes) {
      if (satisfied & (1 << i)) continue;
      const wanted = this.#shape.somes[i]!.value;
      choices = choices.flatMap((one) => {
        const more = { bits: one.bits | (1 << i), fits: conjunctions.and([one.fits, wanted]) };
        return more.fits === one.fits ? [more] : [one, more];
      });
    }
    return choices.filter(({ fits }) => !fits.never);
  }

  #increase(count: number): number {
    return Math.min(count + 1, this.#maxCount);
  }

  #member(key: Expression, value: Conjunction): Expression {
    return sequence([key, COLON, this.#writer.refer(value)]);
  }
}
