/**
 * What reads each kind of constraint.
 *
 * @module
 */
import { grammarOf } from "../expression.ts";
import type { ConstraintKind, FrontEnd, FrontEndContext } from "../grammar.ts";
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
