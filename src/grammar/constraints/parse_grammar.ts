/**
 * Grammars in any of the notations that clients have for them.
 *
 * @module
 */

import { parseEbnf } from "../ebnf/parse_ebnf.ts";
import type { Grammar } from "../expression.ts";
import { isLark, parseLark } from "../lark/parse_lark.ts";
import type { SchemaContext } from "./schema_context.ts";

/**
 * Reads EBNF (`root ::= ...`, GBNF and its relatives) or Lark's notation (`start: ...`), whichever the
 * first definition is written in.
 *
 * @throws {GrammarError} with the position, line and column of what is wrong.
 */
export function parseGrammar(source: string, context: SchemaContext): Grammar {
  return isLark(source) ? parseLark(source, context) : parseEbnf(source, context);
}
