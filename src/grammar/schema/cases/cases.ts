/**
 * From a schema to the cases of each type that it allows or forbids.
 *
 * Negation is pushed down to single facts, so what a schema does not allow is as plain as what it
 * allows. `anyOf`, `oneOf`, `if` and the rest become several cases, `allOf` and `$ref` join cases.
 * Cases that contradict themselves are left out as soon as they arise.
 *
 * @module
 */

import { union } from "../../automaton/regular.ts";
import { spendEffort } from "../../effort.ts";
import type { CodePointAutomaton } from "../../expression.ts";
import { GrammarError } from "../../grammar_error.ts";
import { isAtLeast } from "../dialect.ts";
import { isObject, JSON_TYPES, type JsonObject, type JsonType } from "../json_value.ts";
import { checkKeywords, isAnnotation } from "../keyword_forms.ts";
import { arrayConstraints, unevaluatedItems } from "../keywords/array_keywords.ts";
import { toldApart } from "../keywords/kind_member.ts";
import { allowsType, logicConstraints } from "../keywords/logic_keywords.ts";
import { numberConstraints } from "../keywords/number_keywords.ts";
import { objectConstraints, unevaluatedProperties } from "../keywords/object_keywords.ts";
import { caseLanguage, nestingFormat, stringConstraints } from "../keywords/string_keywords.ts";
import type { SchemaNode, SchemaTree } from "../schema_tree.ts";
import { checkFormat } from "../strings/formats.ts";
import { automatonOfOtherTexts, type Language, type Spend } from "../strings/language.ts";
import { type Conjunction, Conjunctions } from "./conjunctions.ts";
import { contradicts } from "./contradictions.ts";
import type { Case, Fact } from "./facts.ts";
import {
  type CaseContext,
  type Constraint,
  EVERY_CASE,
  type JoinedPart,
  NO_CASE,
  type SchemaCases,
} from "./schema_cases.ts";

export const MAX_CASES = 2_000;
export const MAX_PRODUCT = 100_000;
/** Schemas inside one another at the same place of a value. */
export const MAX_NESTING = 400;
/** Levels of a value that are looked at to find a contradiction. */
const MAX_LOOKAHEAD = 20;
export const MAX_STEPS = 200_000;
/** Of looking cases up. */
const CASES_EFFORT = 0.3;
/** Of reading a schema for one type. */
const READ_EFFORT = 14;
/** Of joining two cases. */
const STEP_EFFORT = 2.5;
/** Of each fact of two cases that are joined. */
const FACT_EFFORT = 0.2;
/** States of automata that are made on the way, roughly. */
export const MAX_WORK = 1_000_000;

export class CaseAnalysis implements SchemaCases {
  readonly tree: SchemaTree;
  readonly conjunctions = new Conjunctions();
  readonly #known = new Map<number, readonly Case[]>();
  readonly #joined = new Map<Conjunction, Partial<Record<JsonType, readonly Case[]>>>();
  /** Cases that do not contradict themselves as far as is known. */
  readonly #consistent = new Set<Case>();
  /** Lists of nothing but such cases. */
  readonly #joinedLists = new Set<readonly Case[]>();
  readonly #never = new Map<Conjunction, boolean>();
  readonly #checked = new Set<SchemaNode>();
  #active = new Set<number>();
  readonly #derived = new Map<string, SchemaNode>();
  readonly #keysBeside = new Map<string, CodePointAutomaton>();
  /** Calls of `casesOf` inside one another. */
  #depth = 0;
  #lookahead = 0;
  #steps = 0;
  #work = 0;

  constructor(tree: SchemaTree) {
    this.tree = tree;
  }

  conjunction(node: SchemaNode, holds = true): Conjunction {
    const seen = new Set<SchemaNode>();
    let at = node;
    for (let next = this.#alias(at); next !== undefined; next = this.#alias(at)) {
      if (seen.has(at)) refuseCircle(at);
      seen.add(at);
      at = next;
    }
    return this.conjunctions.of(at, holds);
  }

  derive(from: SchemaNode, name: string, make: () => JsonObject): SchemaNode {
    const key = `${from.id} ${name}`;
    let node = this.#derived.get(key);
    if (node === undefined) {
      node = this.tree.derive(make(), from);
      this.#derived.set(key, node);
    }
    return node;
  }

  #alias(node: SchemaNode): SchemaNode | undefined {
    this.#check(node);
    const { value, resource } = node;
    if (!isObject(value) || typeof value.$ref !== "string") return undefined;
    const alone = Object.keys(value).every((name) => name === "$ref" || isAnnotation(name));
    if (!alone && isAtLeast(resource.dialect, "2019-09")) return undefined;
    return this.tree.resolve(node, "$ref", value.$ref);
  }

  #check(node: SchemaNode): void {
    if (this.#checked.has(node)) return;
    this.#checked.add(node);
    checkKeywords(node);
    const { value, path } = node;
    if (isObject(value) && typeof value.format === "string") {
      checkFormat(value.format, `${path}/format`);
    }
  }

  anyOf(nodes: readonly SchemaNode[]): Conjunction {
    if (nodes.length === 1) return this.conjunction(nodes[0]!);
    const key = nodes.map(({ id }) => id).join();
    let node = this.#derived.get(key);
    if (node === undefined) {
      node = this.tree.deriveAnyOf(nodes);
      this.#derived.set(key, node);
    }
    return this.conjunction(node);
  }

  casesOf(node: SchemaNode, holds: boolean, context: CaseContext): readonly Case[] {
    spendEffort(CASES_EFFORT);
    if (typeof node.value === "boolean") return node.value === holds ? EVERY_CASE : NO_CASE;
    const annotate = context.annotate && holds;
    const key = caseKey(node, holds, { type: context.type, annotate });
    const known = this.#known.get(key);
    if (known !== undefined) return known;
    if (this.#active.has(key)) refuseCircle(node);
    if (this.#depth >= MAX_NESTING) {
      throw new GrammarError(
        `Cannot use the schema: more than ${MAX_NESTING} schemas lie inside one another`,
        { path: node.path },
      );
    }
    this.#depth += 1;
    this.#active.add(key);
    const cases = placeErrors(node, () =>
      this.#readCases(node, holds, { type: context.type, annotate }),
    );
    this.#active.delete(key);
    this.#depth -= 1;
    this.#known.set(key, cases);
    return cases;
  }

  #readCases(node: SchemaNode, holds: boolean, context: CaseContext): readonly Case[] {
    this.#check(node);
    if (!allowsType(node, context.type)) return holds ? NO_CASE : EVERY_CASE;
    spendEffort(READ_EFFORT);
    const closing = this.#unevaluated(node, context);
    const inner = closing !== undefined && holds ? { ...context, annotate: true } : context;
    const constraints = [
      ...logicConstraints(node, this, inner),
      ...this.#typeConstraints(node, inner),
    ];
    if (holds) {
      const cases = this.both(
        node,
        context.type,
        constraints.map((c) => c.holds),
      );
      if (closing === undefined) return cases;
      const closed = cases.map((one): Case => [...one, closing.fact(one)]);
      return context.annotate ? closed : closed.map((one) => one.map(withoutAnnotation));
    }
    const failing = constraints.flatMap((constraint) => constraint.fails());
    if (closing !== undefined) {
      const what = `values that only "${closing.keyword}" forbids`;
      failing.push([{ kind: "unwritten", what, path: `${node.path}/${closing.keyword}` }]);
    }
    return this.#limit(node, context.type === "object" ? toldApart(node, failing, this) : failing);
  }

  #unevaluated(node: SchemaNode, { type }: CaseContext) {
    if (!isObject(node.value)) return undefined;
    if (type === "object") return unevaluatedProperties(node, this);
    if (type === "array") return unevaluatedItems(node, this);
    return undefined;
  }

  #typeConstraints(node: SchemaNode, context: CaseContext): readonly Constraint[] {
    const { value, resource } = node;
    // Beside a reference, older drafts know no other keyword.
    if (isObject(value) && "$ref" in value && !isAtLeast(resource.dialect, "2019-09")) return [];
    switch (context.type) {
      case "number":
        return numberConstraints(node);
      case "string":
        return stringConstraints(node);
      case "array":
        return arrayConstraints(node, this, context);
      case "object":
        return objectConstraints(node, this, context);
      default:
        return [];
    }
  }

  /** Cases of values that fit all parts of a conjunction. */
  casesOfAll(conjunction: Conjunction, type: JsonType): readonly Case[] {
    if (conjunction.never) return NO_CASE;
    let known = this.#joined.get(conjunction);
    if (known === undefined) {
      known = {};
      this.#joined.set(conjunction, known);
    }
    let cases = known[type];
    if (cases === undefined) {
      const { literals } = conjunction;
      const context = { type, annotate: false };
      cases = this.#join(literals[0]?.node ?? this.tree.root, type, {
        count: literals.length,
        part: (i) => () => this.casesOf(literals[i]!.node, literals[i]!.holds, context),
      });
      known[type] = cases;
    }
    return cases;
  }

  both(node: SchemaNode, type: JsonType, parts: readonly JoinedPart[]): readonly Case[] {
    return this.#join(node, type, { count: parts.length, part: (i) => parts[i]! });
  }

  #join(
    node: SchemaNode,
    type: JsonType,
    { count, part }: { readonly count: number; readonly part: (i: number) => JoinedPart },
  ): readonly Case[] {
    let cases = EVERY_CASE;
    for (let i = 0; i < count; i++) {
      const next = part(i);
      if (typeof next !== "function") {
        cases = this.#refute(node, type, { cases, ...next });
        if (cases.length === 0) return NO_CASE;
        continue;
      }
      const more = next();
      if (more === EVERY_CASE) continue;
      if (cases === EVERY_CASE && this.#joinedLists.has(more)) cases = more;
      else cases = this.#joinLists(node, type, [cases, more]);
      if (cases.length === 0) return NO_CASE;
    }
    return cases;
  }

  /** What excludes a constraint stays as it is; all else is told apart by how the constraint fails. */
  #refute(
    node: SchemaNode,
    type: JsonType,
    { cases, refuted }: { readonly cases: readonly Case[]; readonly refuted: Constraint },
  ): readonly Case[] {
    if (cases === EVERY_CASE) return refuted.fails();
    const holding = refuted.holds();
    if (holding === EVERY_CASE) return NO_CASE;
    const [apart, others]: [Case[], Case[]] = [[], []];
    this.#countSteps(node, cases.length * holding.length);
    for (const one of cases) {
      const isApart = holding.every((other) => contradicts([...one, ...other], type, this));
      (isApart ? apart : others).push(one);
    }
    if (others.length === 0) return cases;
    return this.#limit(node, [...apart, ...this.#joinLists(node, type, [others, refuted.fails()])]);
  }

  #countSteps(node: SchemaNode, pairs: number): void {
    if (pairs > MAX_PRODUCT) this.#refuseCases(node);
    this.#steps += pairs;
    spendEffort(STEP_EFFORT * pairs);
    if (this.#steps > MAX_STEPS) this.#refuseCases(node);
  }

  #joinLists(
    node: SchemaNode,
    type: JsonType,
    [cases, more]: readonly [readonly Case[], readonly Case[]],
  ): readonly Case[] {
    this.#countSteps(node, cases.length * more.length);
    const joined: Case[] = [];
    for (const one of cases) {
      for (const other of more) {
        const both = one.length === 0 ? other : [...one, ...other];
        spendEffort(FACT_EFFORT * both.length);
        if (!this.#contradicts(both, type)) joined.push(both);
      }
      if (joined.length > MAX_CASES) this.#refuseCases(node);
    }
    const limited = this.#limit(node, joined);
    this.#joinedLists.add(limited);
    return limited;
  }

  /** Most cases are joined again, unchanged, wherever their schema is a part of another one. */
  #contradicts(one: Case, type: JsonType): boolean {
    if (this.#consistent.has(one)) return false;
    if (contradicts(one, type, this)) return true;
    this.#consistent.add(one);
    return false;
  }

  #limit(node: SchemaNode, cases: readonly Case[]): readonly Case[] {
    if (cases.length > MAX_CASES) this.#refuseCases(node);
    // One case that always holds covers all others.
    return cases.some((one) => one.length === 0) ? EVERY_CASE : cases;
  }

  readonly spend: Spend = (states) => {
    this.#work += states;
    if (this.#work > MAX_WORK) {
      throw new GrammarError("Cannot enforce the schema: to join its parts takes too much work");
    }
  };

  #refuseCases(node: SchemaNode): never {
    throw new GrammarError(`Cannot enforce the schema: it has more than ${MAX_CASES} cases`, {
      path: node.path,
    });
  }

  keysBeside(names: readonly string[]): CodePointAutomaton {
    const key = JSON.stringify(names);
    let keys = this.#keysBeside.get(key);
    if (keys === undefined) {
      keys = automatonOfOtherTexts(names, "");
      this.#keysBeside.set(key, keys);
    }
    return keys;
  }

  isNever(conjunction: Conjunction): boolean {
    if (conjunction.never) return true;
    const known = this.#never.get(conjunction);
    if (known !== undefined) return known;
    if (this.#lookahead >= MAX_LOOKAHEAD) return false;
    // A value that contains itself is not there to contradict anything.
    this.#never.set(conjunction, false);
    this.#lookahead += 1;
    const outer = this.#active;
    this.#active = new Set();
    const never = JSON_TYPES.every((type) => this.casesOfAll(conjunction, type).length === 0);
    this.#active = outer;
    this.#lookahead -= 1;
    this.#never.set(conjunction, never);
    return never;
  }

  formatOf(conjunction: Conjunction): Language | undefined {
    return nestingFormat(this.casesOfAll(conjunction, "string"));
  }

  languageOf(conjunction: Conjunction): CodePointAutomaton | undefined {
    const cases = this.casesOfAll(conjunction, "string");
    if (cases.some((one) => one.length === 0)) return undefined;
    const isUnknown = (fact: Fact) =>
      fact.kind === "unwritten" || (fact.kind === "language" && !fact.language.isWhole);
    if (cases.flat().some(isUnknown)) {
      throw new GrammarError("Cannot enforce the format of keys: it is no regular language");
    }
    const languages = cases.map((one) => caseLanguage(one, this.spend));
    return languages.length === 0
      ? { states: [{ accepting: false, edges: [] }] }
      : languages.reduce(union);
  }
}

/** Another number for every other question about a schema. */
function caseKey({ id }: SchemaNode, holds: boolean, { type, annotate }: CaseContext): number {
  const question = JSON_TYPES.indexOf(type) * 4 + (holds ? 2 : 0) + (annotate ? 1 : 0);
  return id * JSON_TYPES.length * 4 + question;
}

function withoutAnnotation(fact: Fact): Fact {
  return "evaluates" in fact ? { ...fact, evaluates: false } : fact;
}

/** What goes wrong inside names the innermost schema when it names no place itself. */
export function placeErrors<T>({ path }: SchemaNode, work: () => T): T {
  try {
    return work();
  } catch (error) {
    if (!(error instanceof GrammarError) || error.path !== undefined) throw error;
    throw new GrammarError(error.message, { path, cause: error });
  }
}

function refuseCircle(node: SchemaNode): never {
  throw new GrammarError("Cannot use the schema: it refers to itself without any value between", {
    path: node.path,
  });
}
