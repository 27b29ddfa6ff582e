/**
 * JSON schema -> `Grammar`, exactly or not at all.
 *
 * The grammar matches JSON texts of values that fit the schema, and no others. Of each such value
 * it matches at least one text, usually many:
 *
 * - Members stand in any order. Where it is to be the schema's, or where some member must differ from
 *   others, those that it names stand in its order, all others behind them.
 * - Between tokens stands white space as models write it or up to a bound, none before and after
 *   the value.
 * - Strings are spelled in every way that JSON knows. In keys, and in strings of a format or a list,
 *   letters and what else of ASCII needs no escape have none.
 * - Keys that the schema does not name may come twice, as in all of JSON; the last one counts. Where
 *   more than one of them must be there, or some value must differ from others, none comes twice.
 * - Numbers of `enum` and `const` are spelled as the schema spells them.
 * - Other numbers of which the schema says anything are spelled without exponent, or in the scientific
 *   notation that JavaScript uses for very large and very small ones; whole numbers where the type
 *   is "integer" without a point.
 * - Numbers have up to 40 digits before the point, 24 behind it and 4 in the exponent. They have any
 *   where no shorter one fits, and where `multipleOf` takes too many states to count them as well.
 *
 * Unknown keywords and formats are annotations and told about as warnings. What constrains
 * values and cannot be enforced is refused with the keyword and its place. Formats are enforced. A
 * schema that no value fits is refused too.
 *
 * @module
 */

import type { JsonOrder, JsonUnknown } from "../../constraint.ts";
import { choice, type Expression, type Grammar, NEVER, rule, text } from "../expression.ts";
import { GrammarError } from "../grammar_error.ts";
import { CaseAnalysis, placeErrors } from "./cases/cases.ts";
import type { Conjunction } from "./cases/conjunctions.ts";
import {
  type ArrayFact,
  type BooleanFact,
  type Case,
  findUnwritten,
  type NumberFact,
  type ObjectFact,
  type StringFact,
} from "./cases/facts.ts";
import type { Dialect } from "./dialect.ts";
import { parseJson } from "./json_text.ts";
import { JSON_TYPES, type JsonType, type JsonValue } from "./json_value.ts";
import { type KnownNumbers, numberExpression } from "./numbers/number_language.ts";
import { arrayExpression } from "./rules/array_grammar.ts";
import type { CaseWriter } from "./rules/case_writer.ts";
import {
  indentNoFurther,
  jsonRules,
  MAX_LEVELS,
  type WhitespaceOptions,
} from "./rules/json_grammar.ts";
import { machineExpression } from "./rules/machine.ts";
import { nestingOf } from "./rules/nesting.ts";
import { objectExpression } from "./rules/object_grammar.ts";
import { stringExpression } from "./rules/string_grammar.ts";
import { checkSize } from "./schema_size.ts";
import { SchemaTree } from "./schema_tree.ts";
import type { Language } from "./strings/language.ts";

export interface JsonSchemaOptions extends WhitespaceOptions {
  /**
   * Of a schema without `$schema`.
   *
   * @default "2020-12"
   */
  readonly dialect?: Dialect | undefined;
  /**
   * Keywords that the schema's dialect does not have and unknown formats: "ignore" takes
   * them as annotations, which is what JSON Schema says, and warns; "refuse" refuses the schema.
   *
   * @default "ignore"
   */
  readonly unknown?: JsonUnknown | undefined;
  /**
   * Of members that the schema names: "any", or "schema" for the order of `properties`, whose next key
   * is then often the only one that may follow, and all other members behind them.
   *
   * @default "any"
   */
  readonly order?: JsonOrder | undefined;
}

/** Conjunctions of schemas, each of which is a rule. */
export const MAX_RULES = 50_000;

/**
 * The texts of values that fit a schema.
 *
 * @param schema As JSON text, which is the better way, or as `JSON.parse` reads it: that rounds
 * numbers to doubles, forgets how they were written and may change the order of keys.
 * @throws {GrammarError} naming the keyword and its place, for what is malformed, cannot be
 * enforced, contradicts itself or is beyond a limit.
 */
export function jsonSchemaGrammar(schema: unknown, options: JsonSchemaOptions = {}): Grammar {
  if (typeof schema !== "string") checkSize(schema);
  const value = typeof schema === "string" ? parseJson(schema) : (schema as JsonValue);
  const { dialect = "2020-12", unknown = "ignore" } = options;
  const tree = new SchemaTree(value, { dialect, unknown });
  return new SchemaCompilation(tree, options).grammar;
}

class SchemaCompilation {
  readonly grammar: Grammar;
  readonly #rules: Map<string, Expression>;
  readonly #analysis: CaseAnalysis;
  readonly #names = new Map<Conjunction, string>();
  readonly #waiting: Conjunction[] = [];
  readonly #order: JsonOrder;
  readonly #numbers: KnownNumbers = new Map();
  #machines = 0;
  #shared = 0;

  constructor(tree: SchemaTree, options: JsonSchemaOptions) {
    this.#order = options.order ?? "any";
    this.#rules = jsonRules(options);
    this.#analysis = new CaseAnalysis(tree);
    const root = this.#analysis.conjunction(tree.root);
    if (this.#analysis.isNever(root)) {
      throw new GrammarError("Cannot use the schema: no value fits it");
    }
    const name = this.#nameOf(root);
    for (let next = this.#waiting.pop(); next !== undefined; next = this.#waiting.pop()) {
      const write = () => this.#write(next);
      const place = next.literals[0]?.node ?? tree.root;
      this.#rules.set(this.#nameOf(next), placeErrors(place, write));
    }
    this.grammar = { rules: this.#rules, root: name, warnings: tree.warnings.list() };
    if (options.maxWhitespace !== undefined) return;
    indentNoFurther(this.#rules, nestingOf(this.#rules, { root: name, most: MAX_LEVELS }));
  }

  #nameOf(value: Conjunction): string {
    if (value === this.#analysis.conjunctions.any) return "value";
    let name = this.#names.get(value);
    if (name === undefined) {
      if (this.#names.size === MAX_RULES) {
        throw new GrammarError(`Cannot use the schema: it takes more than ${MAX_RULES} rules`);
      }
      name = `value ${this.#names.size}`;
      this.#names.set(value, name);
      this.#waiting.push(value);
    }
    return name;
  }

  #write(value: Conjunction): Expression {
    const options = JSON_TYPES.flatMap((type) =>
      this.#analysis.casesOfAll(value, type).map((one) => this.#writeCase(type, one, value)),
    );
    return choice(options);
  }

  #writeCase(type: JsonType, facts: Case, value: Conjunction): Expression {
    const unwritten = findUnwritten(facts);
    if (unwritten !== undefined) return this.#leaveOut(unwritten.what, unwritten.path);
    switch (type) {
      case "null":
        return text("null");
      case "boolean":
        return booleanExpression(facts as readonly BooleanFact[]);
      case "number":
        return facts.length === 0
          ? rule("number")
          : numberExpression(facts as readonly NumberFact[], this.#numbers);
      case "string":
        return this.#writeString(facts as readonly StringFact[], value);
      case "array":
        if (facts.length === 0) return rule("array");
        return arrayExpression(facts as readonly ArrayFact[], this.#writerFor(value));
      case "object":
        if (facts.length === 0) return rule("object");
        return objectExpression(facts as readonly ObjectFact[], this.#writerFor(value));
      default:
        return type satisfies never;
    }
  }

  #leaveOut(what: string, path: string): Expression {
    this.#analysis.tree.warnings.add(`Left out ${what}: no grammar asks for them`, path);
    return NEVER;
  }

  #writeString(facts: readonly StringFact[], value: Conjunction): Expression {
    const languages = facts.filter((fact) => fact.kind === "language");
    const nested = languages.filter(({ language }) => language.content !== undefined);
    const isListed = languages.some(({ holds, language }) => holds && language.texts);
    if (!isListed && nested.some(({ holds }) => !holds)) {
      return this.#leaveOut("texts that are no patterns", value.literals[0]?.node.path ?? "");
    }
    if (nested.length > 0) this.#spell(nested[0]!.language);
    return stringExpression(facts);
  }

  #spell({ content, rules }: Language): Expression {
    for (const [name, expression] of rules?.() ?? []) this.#rules.set(name, expression);
    return content ?? NEVER;
  }

  #writerFor(value: Conjunction): CaseWriter {
    const path = value.literals[0]?.node.path ?? "";
    return {
      analysis: this.#analysis,
      refer: (part) => (part.never ? NEVER : rule(this.#nameOf(part))),
      expand: (machine) =>
        machineExpression(machine, {
          rules: this.#rules,
          name: `list ${this.#machines++}`,
          path,
        }),
      spell: (format) => this.#spell(format),
      share: (expression) => {
        const name = `member ${this.#shared++}`;
        this.#rules.set(name, expression);
        return rule(name);
      },
      order: this.#order,
      path,
    };
  }
}

function booleanExpression(facts: readonly BooleanFact[]): Expression {
  const allowed = [true, false].filter((value) =>
    facts.every((fact) => fact.values.includes(value)),
  );
  return choice(allowed.map((value) => text(String(value))));
}
