/**
 * Which kinds of constraints a client may bring, by the names that servers of this kind have for it.
 * One engine enforces all of them, whatever the name.
 *
 * @module
 */
import { InvalidRequestError } from "../errors.ts";
import { parseEbnf } from "./ebnf/parse_ebnf.ts";
import { grammarOf } from "./expression.ts";
import type { ConstraintKind, FrontEnd } from "./grammar.ts";
import { parseRegex } from "./regex/parse_regex.ts";
import { jsonSchemaGrammar } from "./schema/json_schema.ts";

const FRONT_ENDS: Readonly<Record<ConstraintKind, FrontEnd>> = {
  json_schema: (source) => jsonSchemaGrammar(source),
  regex: (source) => grammarOf(parseRegex(source)),
  ebnf: (source) => parseEbnf(source),
};

const KINDS = {
  outlines: ["json_schema", "regex"],
  xgrammar: ["json_schema", "ebnf"],
  auto: ["json_schema", "regex", "ebnf"],
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
    `grammarBackend must be one of ${names}, got ${name}`,
    "grammarBackend",
  );
}

/** Readers of the kinds that a backend supports. */
export function frontEndsOf(
  backend: GrammarBackend,
): Readonly<Partial<Record<ConstraintKind, FrontEnd>>> {
  return Object.fromEntries(KINDS[backend].map((kind) => [kind, FRONT_ENDS[kind]]));
}
