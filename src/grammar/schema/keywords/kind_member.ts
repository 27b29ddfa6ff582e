/**
 * The member that says which kind an object is of: one of a union has it with a value of its own.
 *
 * What does not fit a kind lacks that member, or has another value there, or fails in some other way.
 * Told apart like that, objects that fail all kinds of a union are few cases: one for other values
 * of the member, and those of each kind, which exclude all other kinds.
 *
 * @module
 */

import type { Case, HasFact } from "../cases/facts.ts";
import type { SchemaCases } from "../cases/schema_cases.ts";
import { isArray, isObject, type JsonObject, type JsonValue } from "../json_value.ts";
import type { SchemaNode } from "../schema_tree.ts";

/** The same cases, of which no two have the member right in one and wrong in the other. */
export function toldApart(
  node: SchemaNode,
  failing: readonly Case[],
  analysis: SchemaCases,
): readonly Case[] {
  const key = isObject(node.value) ? kindMemberOf(node.value) : undefined;
  if (key === undefined || failing.length < 2) return failing;
  const value = analysis.conjunction(analysis.tree.child(node, "properties", key));
  const isRight: HasFact = { kind: "has", key, value };
  return failing.map((one) => (one.some((fact) => speaksOf(fact, key)) ? one : [...one, isRight]));
}

/** A required one of listed values. */
function kindMemberOf({ required, properties }: JsonObject): string | undefined {
  if (!isArray(required) || !isObject(properties)) return undefined;
  const keys = required.filter((key) => typeof key === "string");
  return keys.find((key) => Object.hasOwn(properties, key) && isListed(properties[key]!));
}

function isListed(schema: JsonValue): boolean {
  return isObject(schema) && (Object.hasOwn(schema, "const") || Object.hasOwn(schema, "enum"));
}

function speaksOf(fact: Case[number], key: string): boolean {
  return fact.kind === "has" ? fact.key === key : fact.kind === "members" && fact.named.has(key);
}
