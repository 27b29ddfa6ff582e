/**
 * Which kinds of constraints a client may bring, by the names that servers of this kind have for it.
 * One engine enforces all of them, whatever the name.
 *
 * @module
 */
import type { ConstraintKind } from "../../constraint.ts";
import { InvalidRequestError } from "../../errors.ts";
import { GrammarError } from "../grammar_error.ts";

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
