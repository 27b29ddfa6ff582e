/**
 * Free text with structured parts: wherever a trigger comes up, one of the structures that begin
 * with it must follow, filled in by its schema, and then its end.
 *
 * @module
 */

import { embed } from "../embed.ts";
import { choice, type Expression, type Grammar, regular, repeat, sequence } from "../expression.ts";
import { GrammarError } from "../grammar_error.ts";
import { type JsonSchemaOptions, jsonSchemaGrammar } from "../schema/json_schema.ts";
import { JSON_RULES } from "../schema/rules/json_grammar.ts";
import { textUpTo, textWithout } from "./free_text.ts";
import type { Marks } from "./marks.ts";

/** One structured part. Special tokens stand in the texts by their names. */
export interface TagStructure {
  readonly begin: string;
  /** JSON schema of what stands between `begin` and `end`. */
  readonly schema: unknown;
  readonly end: string;
}

export interface StructuralTag {
  readonly structures: readonly TagStructure[];
  /** Each structure begins with one of them. */
  readonly triggers: readonly string[];
}

/** What schemas inside other text are read with. */
export interface SchemaContext {
  readonly marks: Marks;
  readonly json?: JsonSchemaOptions | undefined;
}

/** Code units of all triggers, as often as there are triggers: for each its own automaton is made. */
const MAX_TRIGGERS = 20_000;

const isText = (value: unknown): value is string => typeof value === "string" && value !== "";
const isObject = (value: unknown): value is Readonly<Record<string, unknown>> =>
  typeof value === "object" && value !== null && !Array.isArray(value);

/**
 * Reads `{"structures": [{"begin", "schema", "end"}], "triggers": [..]}`.
 *
 * @throws {GrammarError} naming what is missing, unknown or of another type.
 */
export function parseStructuralTag(source: string): StructuralTag {
  const tag = parseJson(source);
  requireFields(tag, "", ["type", "structures", "triggers"]);
  const { type = "structural_tag", structures, triggers } = tag;
  if (type !== "structural_tag") refuse("type", 'it must be "structural_tag"');
  if (!Array.isArray(structures) || structures.length === 0) {
    return refuse("structures", "it must be a list, and not empty");
  }
  if (!Array.isArray(triggers) || triggers.length === 0 || !triggers.every(isText)) {
    return refuse("triggers", "it must be a list of texts, none of them empty");
  }
  if (triggers.some((trigger) => /\p{Surrogate}/u.test(trigger))) {
    refuse("triggers", "UTF-8 cannot spell half a surrogate pair");
  }
  if (triggers.join("").length * triggers.length > MAX_TRIGGERS) {
    refuse("triggers", "they are too many or too long");
  }
  for (const [i, structure] of (structures as readonly unknown[]).entries()) {
    const path = `structures/${i}`;
    if (!isObject(structure)) return refuse(path, "it must be an object");
    requireFields(structure, `${path}/`, ["begin", "schema", "end"]);
    if (!isText(structure.begin)) refuse(`${path}/begin`, "it must be a text, and not empty");
    if (typeof structure.end !== "string") refuse(`${path}/end`, "it must be a text");
    if (structure.schema === undefined) refuse(`${path}/schema`, "it is missing");
    if (!triggers.some((trigger) => (structure.begin as string).startsWith(trigger))) {
      refuse(`${path}/begin`, "no trigger begins it");
    }
  }
  return { structures, triggers } as StructuralTag;
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

function requireFields(object: object, path: string, known: readonly string[]): void {
  const unknown = Object.keys(object).find((name) => !known.includes(name));
  if (unknown !== undefined) refuse(`${path}${unknown}`, "there is no such field");
}

function refuse(path: string, problem: string): never {
  throw new GrammarError(`Cannot use the structural tag: ${problem}`, { path: `/${path}` });
}

/** @throws {GrammarError} when a schema cannot be enforced exactly. */
export function structuralTagGrammar(tag: StructuralTag, { marks, json }: SchemaContext): Grammar {
  const rules = new Map<string, Expression>();
  const grammars = tag.structures.map(({ schema }) => jsonSchemaGrammar(schema, json));
  const bodies = grammars.map((grammar, i) =>
    embed(rules, grammar, { prefix: `structure ${i} `, shared: JSON_RULES }),
  );
  const { parts, text } = triggered(
    tag.structures.map(({ begin, end }, i) => ({
      begin,
      rest: (from) => sequence([marks.spell(begin.slice(from)), bodies[i]!, marks.spell(end)]),
    })),
    { triggers: tag.triggers, marks },
  );
  rules.set("root", sequence([repeat(parts), text]));
  const warnings = grammars.flatMap((grammar) => grammar.warnings ?? []);
  return { rules, root: "root", warnings };
}

export interface TriggeredPart {
  /** Its first words. */
  readonly begin: string;
  /** What follows the first `from` UTF-16 units of them. */
  rest(from: number): Expression;
}

/**
 * Free text up to and including one part, and free text without any.
 *
 * A trigger of text may come up in no other way; one with a special token cannot, as free text has
 * no special tokens.
 */
export function triggered(
  parts: readonly TriggeredPart[],
  { triggers, marks }: { readonly triggers: readonly string[]; readonly marks: Marks },
): { readonly parts: Expression; readonly text: Expression } {
  const words = triggers.filter((trigger) => !marks.occurs(trigger));
  const text = regular(textWithout(words));
  const options = triggers.map((trigger) => {
    const begun = parts.filter(({ begin }) => begin.startsWith(trigger));
    const rests = (from: number) => choice(begun.map((part) => part.rest(from)));
    return words.includes(trigger)
      ? sequence([regular(textUpTo(words, trigger)), rests(trigger.length)])
      : sequence([text, rests(0)]);
  });
  return { parts: choice(options), text };
}
