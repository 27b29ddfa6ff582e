/**
 * Structural tags: free text with structured parts, in the two shapes that clients have for them.
 *
 * `{"structures": [{"begin", "schema", "end"}], "triggers": [..]}`: wherever a trigger comes up, one
 * of the structures that begin with it must follow, filled in by its schema, and then its end.
 * `{"format": {"type": ..}}`: any of the formats of `tag_format.ts`.
 *
 * @module
 */

import type { Grammar } from "../expression.ts";
import { GrammarError } from "../grammar_error.ts";
import type { Marks } from "./marks.ts";
import type { SchemaContext } from "./schema_context.ts";
import {
  isObject,
  readWords,
  refuse,
  requireFields,
  type Tag,
  type TagFormat,
  TagFormatReader,
} from "./tag_format.ts";
import { tagGrammar } from "./tag_grammar.ts";

/**
 * @throws {GrammarError} naming what is missing, unknown or of another type, or cannot be enforced
 * exactly.
 */
export function structuralTagGrammar(source: string, context: SchemaContext): Grammar {
  return tagGrammar(parseStructuralTag(source, context.marks), context);
}

function parseStructuralTag(source: string, marks: Marks): TagFormat {
  const tag = parseJson(source);
  const { type = "structural_tag" } = tag;
  if (type !== "structural_tag") refuse("type", 'it must be "structural_tag"');
  if (tag.format !== undefined) {
    requireFields(tag, "", ["type", "format"]);
    return new TagFormatReader(marks).read(tag.format, "format");
  }
  requireFields(tag, "", ["type", "structures", "triggers"]);
  const { structures } = tag;
  if (!Array.isArray(structures) || structures.length === 0) {
    return refuse("structures", "it must be a list, and not empty");
  }
  const triggers = readWords(tag.triggers, "triggers");
  if (triggers.length === 0) refuse("triggers", "it must be a list, and not empty");
  return {
    path: "",
    kind: "triggered",
    triggers,
    excludes: [],
    tags: structures.map((structure, i) => readStructure(structure, `structures/${i}`, triggers)),
    atLeastOne: false,
    stopAfterFirst: false,
  };
}

function readStructure(structure: unknown, path: string, triggers: readonly string[]): Tag {
  if (!isObject(structure)) return refuse(path, "it must be an object");
  requireFields(structure, path, ["begin", "schema", "end"]);
  const { begin, schema, end } = structure;
  if (typeof begin !== "string" || begin === "") {
    return refuse(`${path}/begin`, "it must be a text, and not empty");
  }
  if (typeof end !== "string") return refuse(`${path}/end`, "it must be a text");
  if (schema === undefined) refuse(`${path}/schema`, "it is missing");
  if (!triggers.some((trigger) => begin.startsWith(trigger))) {
    refuse(`${path}/begin`, "no trigger begins it");
  }
  const content: TagFormat = { path: `${path}/schema`, kind: "schema", schema };
  return { kind: "tag", begin, content, ends: [end] };
}

function parseJson(source: string): Readonly<Record<string, unknown>> {
  let value: unknown;
  try {
    value = JSON.parse(source);
  } catch (cause) {
    throw new GrammarError("Cannot read the structural tag: it is not JSON", { cause });
  }
  return isObject(value) ? value : refuse("", "it must be an object");
}
