/**
 * Keywords for arrays.
 *
 * @module
 */

import { largestOf } from "../../../extremes.ts";
import type { Conjunction } from "../cases/conjunctions.ts";
import {
  type ArrayFact,
  type Case,
  type ContainsFact,
  EQUAL_ITEMS,
  type ItemsFact,
} from "../cases/facts.ts";
import {
  type CaseContext,
  type Constraint,
  EVERY_CASE,
  NO_CASE,
  type SchemaCases,
} from "../cases/schema_cases.ts";
import { isAtLeast } from "../dialect.ts";
import { isArray, isObject } from "../json_value.ts";
import type { SchemaNode } from "../schema_tree.ts";

const INFINITY = Number.POSITIVE_INFINITY;

/** The schemas of items by their place, however the dialect writes them. */
interface ItemSchemas {
  readonly prefix: readonly SchemaNode[];
  readonly rest: SchemaNode | undefined;
}

export function arrayConstraints(
  node: SchemaNode,
  analysis: SchemaCases,
  { annotate }: CaseContext,
): Constraint[] {
  const { value, path } = node;
  if (!isObject(value)) return [];
  const { minItems, maxItems, uniqueItems } = value;
  const constraints: Constraint[] = [];
  for (const items of itemSchemas(node, analysis)) {
    constraints.push(itemsConstraint(items, analysis, annotate));
  }
  if (typeof minItems === "number") constraints.push(atLeast(minItems));
  if (typeof maxItems === "number") constraints.push(atMost(maxItems));
  if ("contains" in value) constraints.push(containsConstraint(node, analysis, annotate));
  if (uniqueItems === true) {
    constraints.push({
      holds: () => [[{ kind: "unique", path: `${path}/uniqueItems` }]],
      fails: () => [[{ kind: "unwritten", what: EQUAL_ITEMS, path: `${path}/uniqueItems` }]],
    });
  }
  return constraints;
}

/** In the spelling of each dialect: schemas that do not say theirs may have both. */
function itemSchemas(node: SchemaNode, { tree }: SchemaCases): readonly ItemSchemas[] {
  const { value } = node;
  if (!isObject(value)) return [];
  const rest = (keyword: string) =>
    Object.hasOwn(value, keyword) ? tree.child(node, keyword) : undefined;
  const list = (keyword: string) => {
    const parts = value[keyword];
    return isArray(parts) ? parts.map((_, i) => tree.child(node, keyword, i)) : undefined;
  };
  const tuple = list("items");
  const spellings = [
    // Without a list of items, `additionalItems` says nothing.
    ...(tuple === undefined ? [] : [{ prefix: tuple, rest: rest("additionalItems") }]),
    { prefix: list("prefixItems") ?? [], rest: tuple === undefined ? rest("items") : undefined },
  ];
  return spellings.filter((one) => one.prefix.length > 0 || one.rest !== undefined);
}

function itemsConstraint(
  { prefix, rest }: ItemSchemas,
  analysis: SchemaCases,
  evaluates: boolean,
): Constraint {
  const { any } = analysis.conjunctions;
  const failingItem = (node: SchemaNode, i: number): readonly Case[] => {
    const wrong = analysis.conjunction(node, false);
    if (wrong.never) return NO_CASE;
    const before = Array.from({ length: i }, () => any);
    return [[size(i + 1, INFINITY), known([...before, wrong], undefined)]];
  };
  return {
    holds: () => [
      [
        {
          kind: "items",
          prefix: prefix.map((node) => analysis.conjunction(node)),
          rest: rest && analysis.conjunction(rest),
          evaluates,
        },
      ],
    ],
    fails: () => [
      ...prefix.flatMap(failingItem),
      ...(rest === undefined || analysis.conjunction(rest, false).never
        ? []
        : [[contains(rest, { holds: false, from: prefix.length, min: 1, max: INFINITY })]]),
    ],
  };
}

function containsConstraint(
  node: SchemaNode,
  analysis: SchemaCases,
  annotate: boolean,
): Constraint {
  const { value, resource } = node;
  const { minContains = 1, maxContains = INFINITY } = value as {
    readonly minContains?: number;
    readonly maxContains?: number;
  };
  const part = analysis.tree.child(node, "contains");
  const evaluates = annotate && isAtLeast(resource.dialect, "2020-12");
  const fact = (min: number, max: number, isTold = false): readonly Case[] => [
    [{ ...contains(part, { holds: true, from: 0, min, max }), evaluates: isTold && evaluates }],
  ];
  return {
    holds: () => fact(minContains, maxContains, true),
    fails: () => [
      ...(minContains > 0 ? fact(0, minContains - 1) : NO_CASE),
      ...(maxContains < INFINITY ? fact(maxContains + 1, INFINITY) : NO_CASE),
    ],
  };
}

function atLeast(min: number): Constraint {
  return {
    holds: () => (min > 0 ? [[size(min, INFINITY)]] : EVERY_CASE),
    fails: () => (min > 0 ? [[size(0, min - 1)]] : NO_CASE),
  };
}

function atMost(max: number): Constraint {
  return { holds: () => [[size(0, max)]], fails: () => [[size(max + 1, INFINITY)]] };
}

function size(min: number, max: number): ArrayFact {
  return { kind: "size", min, max };
}

function known(prefix: readonly Conjunction[], rest: Conjunction | undefined): ItemsFact {
  return { kind: "items", prefix, rest, evaluates: false };
}

function contains(
  node: SchemaNode,
  options: Pick<ContainsFact, "holds" | "from" | "min" | "max">,
): ContainsFact {
  return { kind: "contains", node, evaluates: false, ...options };
}

/** What the keyword says once it is known what all others beside it say. */
export function unevaluatedItems(node: SchemaNode, analysis: SchemaCases) {
  const { value } = node;
  if (!isObject(value) || !Object.hasOwn(value, "unevaluatedItems")) return undefined;
  const { tree, conjunctions } = analysis;
  const rest = tree.child(node, "unevaluatedItems");
  const fact = (facts: Case): ItemsFact => {
    const items = facts.filter((f): f is ItemsFact => f.kind === "items" && f.evaluates);
    const found = facts.filter((f): f is ContainsFact => f.kind === "contains" && f.evaluates);
    const isAll = items.some((f) => f.rest !== undefined);
    const length = largestOf(
      items.map(({ prefix }) => prefix.length),
      0,
    );
    const prefix = Array.from({ length }, () => conjunctions.any);
    return {
      kind: "items",
      prefix,
      rest: isAll ? conjunctions.any : analysis.anyOf([rest, ...found.map((f) => f.node)]),
      evaluates: true,
    };
  };
  return { keyword: "unevaluatedItems", fact };
}
