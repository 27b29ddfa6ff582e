/**
 * Which kinds of constraints a client may bring, by the names that servers of this kind have for it.
 * One engine enforces all of them, whatever the name.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import { grammarOf } from "../expression.ts";
import type { ConstraintKind, FrontEnd, FrontEndContext } from "../grammar.ts";
import { GrammarError } from "../grammar_error.ts";
import { parseRegex } from "../regex/parse_regex.ts";
import { type JsonSchemaOptions, jsonSchemaGrammar } from "../schema/json_schema.ts";
import { parseGrammar } from "./parse_grammar.ts";
import { structuralTagGrammar } from "./structural_tag.ts";
import { textChoiceGrammar } from "./text_choice.ts";
import { toolGrammar } from "./tool_grammar.ts";

/** A reader for each kind. */
export function frontEnds(options?: JsonSchemaOptions): Readonly<Record<ConstraintKind, FrontEnd>> {
  const withOptions = ({ marks, jsonUnknown, jsonOrder }: FrontEndContext) => ({
    marks,
    json: {
      ...options,
      unknown: jsonUnknown ?? options?.unknown,
      order: jsonOrder ?? options?.order,
    },
  });
  return {
    json_schema: (source, context) => jsonSchemaGrammar(source, withOptions(context).json),
    regex: (source) => grammarOf(parseRegex(source)),
    ebnf: (source, context) => parseGrammar(source, withOptions(context)),
    choice: (source) => textChoiceGrammar(source),
    structural_tag: (source, context) => structuralTagGrammar(source, withOptions(context)),
    tools: (source, context) => toolGrammar(source, withOptions(context)),
  };
}

const KINDS = {
  outlines: ["json_schema", "regex", "choice"],
  xgrammar: ["json_schema", "ebnf", "structural_tag", "choice"],
  auto: ["json_schema", "regex", "ebnf", "structural_tag", "choice"],
  none: [],
} as const satisfies Readonly<Record<string, readonly ConstraintKind[]>>;

export type GrammarBackend = keyof typeof KINDS;

export const GRAMMAR_BACKENDS = Object.keys(KINDS) as readonly GrammarBackend[];

/** @throws {InvalidRequestError} when there is no such backend; auto when none is named. */
export function requireBackend(name: string = "auto"): GrammarBackend {
  const backend = GRAMMAR_BACKENDS.find((known) => known === name);
  if (backend !== undefined) return backend;
  const names = GRAMMAR_BACKENDS.join(", ");
  throw new InvalidRequestError(
    `Cannot use grammarBackend ${name}: it must be one of ${names}`,
    "grammarBackend",
  );
}

/**
 * @throws {GrammarError} when clients may not bring a constraint of this kind. A server's own
 * constraints know no such limit.
 */
export function requireSupported(kind: ConstraintKind, backend: GrammarBackend): void {
  if ((KINDS[backend] as readonly ConstraintKind[]).includes(kind)) return;
  throw new GrammarError(`Cannot use ${kind}: the grammar backend ${backend} does not support it`);
}
