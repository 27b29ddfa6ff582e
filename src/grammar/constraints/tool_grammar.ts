/**
 * Tool calls in the form that a model writes them: which tools, how many calls, and arguments that
 * fit the tools' schemas.
 *
 * @module
 */

import { embed } from "../embed.ts";
import {
  choice,
  EMPTY,
  type Expression,
  type Grammar,
  regular,
  repeat,
  sequence,
} from "../expression.ts";
import { GrammarError } from "../grammar_error.ts";
import { jsonSchemaGrammar } from "../schema/json_schema.ts";
import { JSON_RULES } from "../schema/rules/json_grammar.ts";
import { checkSize } from "../schema/schema_size.ts";
import { textUpTo, textWithout } from "./free_text.ts";
import type { Marks } from "./marks.ts";
import type { SchemaContext } from "./schema_context.ts";

export interface ToolFunction {
  readonly name: string;
  /** JSON schema of the arguments. Absent: any object. */
  readonly parameters?: unknown;
}

/** What a completion may hold, as JSON in a constraint of the kind `tools`. */
export interface ToolConstraint {
  readonly format: ToolFormat;
  /** The tools that may be called. */
  readonly functions: readonly ToolFunction[];
  /** Nothing but calls; otherwise text may stand before them, or alone. */
  readonly required: boolean;
  /** Whether there may be several calls. */
  readonly parallel: boolean;
}

/** The texts around calls and arguments; special tokens stand in them by their names. */
interface CallForm {
  readonly open: string;
  readonly begin: (name: string) => string;
  readonly end: string;
  /** Absent where a form has room for one call only. */
  readonly between: string | undefined;
  readonly close: string;
  /** What no text before the calls may have in it. */
  readonly trigger: string;
}

const json = (value: string) => JSON.stringify(value);

const FORMS = {
  deepseekv3: {
    open: "<｜tool▁calls▁begin｜>",
    begin: (name) => `<｜tool▁call▁begin｜>function<｜tool▁sep｜>${name}\n\`\`\`json\n`,
    end: "\n```<｜tool▁call▁end｜>",
    between: "\n",
    close: "<｜tool▁calls▁end｜>",
    trigger: "<｜tool▁calls▁begin｜>",
  },
  deepseekv31: {
    open: "<｜tool▁calls▁begin｜>",
    begin: (name) => `<｜tool▁call▁begin｜>${name}<｜tool▁sep｜>`,
    end: "<｜tool▁call▁end｜>",
    between: "",
    close: "<｜tool▁calls▁end｜>",
    trigger: "<｜tool▁calls▁begin｜>",
  },
  qwen25: {
    open: "",
    begin: (name) => `<tool_call>\n{"name": ${json(name)}, "arguments": `,
    end: "}\n</tool_call>",
    between: "\n",
    close: "",
    trigger: "<tool_call>",
  },
  llama3: {
    open: "",
    begin: (name) => `{"name": ${json(name)}, "parameters": `,
    end: "}",
    between: "; ",
    close: "",
    trigger: '{"name": ',
  },
  // A call's end is a token that ends the answer, so there is one call at most.
  "gpt-oss": {
    open: "",
    begin: (name) => `<|channel|>commentary to=functions.${name} <|constrain|>json<|message|>`,
    end: "",
    between: undefined,
    close: "",
    trigger: "<|channel|>commentary to=",
  },
} as const satisfies Readonly<Record<string, CallForm>>;

export type ToolFormat = keyof typeof FORMS;

export const TOOL_FORMATS = Object.keys(FORMS) as readonly ToolFormat[];

const ANY_OBJECT = { type: "object" };

/** @throws {GrammarError} when the parameters of a tool cannot be enforced exactly. */
export function toolGrammar(source: string, context: SchemaContext): Grammar {
  const { marks, json: schemaOptions } = context;
  const { format, functions, required, parallel } = JSON.parse(source) as ToolConstraint;
  const form: CallForm = FORMS[format];
  const rules = new Map<string, Expression>();
  const known = new Map<string, Expression>();
  const warnings: string[] = [];
  const calls = functions.map(({ name, parameters = ANY_OBJECT }, i) => {
    const options = { name, parameters, schemaOptions, known, warnings };
    const fields = argumentsOf(rules, options, `tool ${i} `);
    return { begin: form.begin(name), rest: sequence([fields, marks.spell(form.end)]) };
  });
  const call = choice(calls.map(({ begin, rest }) => sequence([marks.spell(begin), rest])));
  const { between } = form;
  const goesOn = parallel && between !== undefined;
  const more = goesOn ? repeat(sequence([marks.spell(between), call])) : EMPTY;
  const close = marks.spell(form.close);
  rules.set("more", sequence([more, close]));
  const others: Expression = { kind: "rule", name: "more" };
  if (required) {
    rules.set("root", sequence([marks.spell(form.open), call, others]));
    return { rules, root: "root", warnings };
  }
  const { parts, text } = triggered(
    calls.map(({ begin, rest }) => ({
      begin: form.open + begin,
      rest: (from) => sequence([marks.spell((form.open + begin).slice(from)), rest, others]),
    })),
    { triggers: [form.trigger], marks },
  );
  rules.set("root", choice([text, parts]));
  return { rules, root: "root", warnings };
}

interface TriggeredPart {
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
function triggered(
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

/** What the parameters of one tool are read with. */
interface ArgumentsOptions extends ToolFunction {
  readonly schemaOptions: SchemaContext["json"];
  /** By their schema as text: many tools have the same parameters, or none. */
  readonly known: Map<string, Expression>;
  /** Takes what was ignored, with the name of the tool. */
  readonly warnings: string[];
}

function argumentsOf(
  rules: Map<string, Expression>,
  { name, parameters, schemaOptions, known, warnings }: ArgumentsOptions,
  prefix: string,
): Expression {
  try {
    // What nests too deep cannot be written as text.
    checkSize(parameters);
    const schema = JSON.stringify(parameters);
    const same = known.get(schema);
    if (same !== undefined) return same;
    const grammar = jsonSchemaGrammar(parameters, schemaOptions);
    for (const warning of grammar.warnings ?? []) warnings.push(`Tool ${name}: ${warning}`);
    const made = embed(rules, grammar, { prefix, shared: JSON_RULES });
    known.set(schema, made);
    return made;
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    const problem = error.message.replace(/^Cannot /, "");
    throw new GrammarError(`Cannot enforce the parameters of tool ${name}: cannot ${problem}`, {
      cause: error,
    });
  }
}
