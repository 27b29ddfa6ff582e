/**
 * Keywords for objects.
 *
 * @module
 */

import { complement, difference } from "../../automaton/regular.ts";
import type { CodePointAutomaton } from "../../expression.ts";
import type { Case, CountFact, HasFact, MembersFact, ObjectFact } from "../cases/facts.ts";
import {
  type CaseContext,
  type Constraint,
  EVERY_CASE,
  NO_CASE,
  type SchemaCases,
} from "../cases/schema_cases.ts";
import { isArray, isObject, type JsonObject, type JsonValue, keysOf } from "../json_value.ts";
import type { SchemaNode } from "../schema_tree.ts";
import { automatonOfOtherTexts, type Language } from "../strings/language.ts";
import { patternLanguage } from "../strings/patterns.ts";

const INFINITY = Number.POSITIVE_INFINITY;

export function objectConstraints(
  node: SchemaNode,
  analysis: SchemaCases,
  context: CaseContext,
): Constraint[] {
  if (!isObject(node.value)) return [];
  return new ObjectReader(node, node.value, { analysis, context }).read();
}

class ObjectReader {
  readonly #node: SchemaNode;
  readonly #value: JsonObject;
  readonly #analysis: SchemaCases;
  readonly #context: CaseContext;

  constructor(
    node: SchemaNode,
    value: JsonObject,
    { analysis, context }: { readonly analysis: SchemaCases; readonly context: CaseContext },
  ) {
    this.#node = node;
    this.#value = value;
    this.#analysis = analysis;
    this.#context = context;
  }

  read(): Constraint[] {
    const { required, minProperties, maxProperties } = this.#value;
    const constraints: Constraint[] = [];
    const has = (keyword: string) => Object.hasOwn(this.#value, keyword);
    if (has("properties") || has("patternProperties") || has("additionalProperties")) {
      constraints.push(this.#members());
    }
    if (isArray(required)) constraints.push(this.#required(required as readonly string[]));
    if (has("propertyNames")) constraints.push(this.#names());
    if (typeof minProperties === "number") {
      constraints.push(this.#count("minProperties", minProperties, INFINITY));
    }
    if (typeof maxProperties === "number") {
      constraints.push(this.#count("maxProperties", 0, maxProperties));
    }
    for (const keyword of ["dependentRequired", "dependentSchemas", "dependencies"]) {
      if (!has(keyword)) continue;
      for (const constraint of this.#dependencies(keyword)) constraints.push(constraint);
    }
    return constraints;
  }

  #members(): Constraint {
    const { tree } = this.#analysis;
    const children = (keyword: string) => {
      const map = Object.hasOwn(this.#value, keyword) ? (this.#value[keyword] as JsonObject) : {};
      const keys = keysOf(map);
      return keys.map((key) => [key, tree.child(this.#node, keyword, key)] as const);
    };
    const named = children("properties");
    const patterns = children("patternProperties").map(([pattern, node]) => ({
      language: patternLanguage(pattern, node.path).automaton,
      node,
    }));
    const additional = Object.hasOwn(this.#value, "additionalProperties")
      ? tree.child(this.#node, "additionalProperties")
      : undefined;
    const fits = (node: SchemaNode) => this.#analysis.conjunction(node);
    const wrong = (node: SchemaNode) => this.#analysis.conjunction(node, false);
    const some = (language: CodePointAutomaton, node: SchemaNode): readonly Case[] =>
      wrong(node).never ? NO_CASE : [[{ kind: "some", language, value: wrong(node) }]];
    return {
      holds: () => [
        [
          {
            kind: "members",
            named: new Map(named.map(([key, node]) => [key, fits(node)])),
            patterns: patterns.map(({ language, node }) => ({ language, value: fits(node) })),
            additional: additional && fits(additional),
            evaluates: this.#context.annotate,
          },
        ],
      ],
      fails: () => [
        ...named.flatMap(([key, node]): readonly Case[] =>
          wrong(node).never ? NO_CASE : [[this.#has(key, node, false)]],
        ),
        ...patterns.flatMap(({ language, node }) => some(language, node)),
        ...(additional === undefined
          ? []
          : some(otherKeys(named, patterns, this.#node.path), additional)),
      ],
    };
  }

  #has(key: string, node?: SchemaNode, holds = true): HasFact {
    const { conjunctions } = this.#analysis;
    const value = node === undefined ? conjunctions.any : this.#analysis.conjunction(node, holds);
    return { kind: "has", key, value };
  }

  #lacks(key: string): MembersFact {
    const named = new Map([[key, this.#analysis.conjunctions.never]]);
    return { kind: "members", named, patterns: [], additional: undefined, evaluates: false };
  }

  #required(keys: readonly string[]): Constraint {
    return {
      holds: () => [keys.map((key) => this.#has(key))],
      fails: () => keys.map((key) => [this.#lacks(key)]),
    };
  }

  #names(): Constraint {
    const names = this.#analysis.conjunction(
      this.#analysis.tree.child(this.#node, "propertyNames"),
    );
    const format = this.#analysis.formatOf(names);
    if (format !== undefined) return this.#namesOfFormat(format);
    const language = this.#analysis.languageOf(names);
    if (language === undefined) return { holds: () => EVERY_CASE, fails: () => NO_CASE };
    const others = () => complement(language);
    return {
      holds: () => [[{ kind: "names", language }]],
      fails: () => [[{ kind: "some", language: others(), value: this.#analysis.conjunctions.any }]],
    };
  }

  /** Keys that fail one that is not regular are no regular language either. */
  #namesOfFormat(format: Language): Constraint {
    const path = `${this.#node.path}/propertyNames`;
    return {
      holds: () => [[{ kind: "names", language: format.automaton, format }]],
      fails: () => [[{ kind: "unwritten", what: "objects with keys that are no patterns", path }]],
    };
  }

  #count(keyword: string, min: number, max: number): Constraint {
    const fact = (least: number, most: number): CountFact => ({
      kind: "count",
      min: least,
      max: most,
      path: `${this.#node.path}/${keyword}`,
    });
    return {
      holds: () => [[fact(min, max)]],
      fails: () => [
        ...(min > 0 ? [[fact(0, min - 1)]] : []),
        ...(max < INFINITY ? [[fact(max + 1, INFINITY)]] : []),
      ],
    };
  }

  #dependencies(keyword: string): Constraint[] {
    const entries = Object.entries(this.#value[keyword] as JsonObject);
    return entries.map(([key, content]) => this.#dependency(keyword, key, content));
  }

  /** The key is not there, or the others are, or the schema fits. */
  #dependency(keyword: string, key: string, content: JsonValue): Constraint {
    const without: Case = [this.#lacks(key)];
    const withKey: Case = [this.#has(key)];
    if (isArray(content)) {
      const others = content as readonly string[];
      return {
        holds: () => [without, [...withKey, ...others.map((other) => this.#has(other))]],
        fails: () => others.map((other): Case => [...withKey, this.#lacks(other)]),
      };
    }
    const schema = this.#analysis.tree.child(this.#node, keyword, key);
    const joined = (holds: boolean) =>
      this.#analysis.both(this.#node, "object", [
        () => [withKey],
        () => this.#analysis.casesOf(schema, holds, this.#context),
      ]);
    return { holds: () => [without, ...joined(true)], fails: () => joined(false) };
  }
}

/** Keys that neither a name nor a pattern is for. */
function otherKeys(
  named: readonly (readonly [key: string, node: SchemaNode])[],
  patterns: readonly { readonly language: CodePointAutomaton }[],
  path: string,
): CodePointAutomaton {
  const keys = named.map(([key]) => key);
  return patterns.reduce(
    (rest, { language }) => difference(rest, language),
    automatonOfOtherTexts(keys, path),
  );
}

/** What the keyword says once it is known what all others beside it say. */
export function unevaluatedProperties(node: SchemaNode, analysis: SchemaCases) {
  const { value } = node;
  if (!isObject(value) || !Object.hasOwn(value, "unevaluatedProperties")) return undefined;
  const { tree, conjunctions } = analysis;
  const rest = analysis.conjunction(tree.child(node, "unevaluatedProperties"));
  const { any } = conjunctions;
  const fact = (facts: Case): ObjectFact => {
    const known = facts.filter((f): f is MembersFact => f.kind === "members" && f.evaluates);
    const isAll = known.some(({ additional }) => additional !== undefined);
    return {
      kind: "members",
      named: new Map(
        known.flatMap(({ named }) => [...named.keys()].map((key) => [key, any] as const)),
      ),
      patterns: known.flatMap(({ patterns }) => patterns.map((p) => ({ ...p, value: any }))),
      additional: isAll ? any : rest,
      evaluates: true,
    };
  };
  return { keyword: "unevaluatedProperties", fact };
}
