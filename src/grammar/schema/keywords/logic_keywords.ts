/**
 * Keywords for values of every type: references, types, listed values, and what joins schemas.
 *
 * @module
 */

import { GrammarError } from "../../grammar_error.ts";
import type { Case, ListedNumber } from "../cases/facts.ts";
import {
  type CaseContext,
  type Constraint,
  EVERY_CASE,
  type JoinedPart,
  NO_CASE,
  type SchemaCases,
} from "../cases/schema_cases.ts";
import { isAtLeast } from "../dialect.ts";
import {
  constOf,
  decimalValue,
  isArray,
  isNumber,
  isObject,
  type JsonObject,
  type JsonType,
  type JsonValue,
  keepOrder,
  keysOf,
  spellingOf,
  typeOf,
} from "../json_value.ts";
import { decimalText } from "../numbers/decimal.ts";
import type { SchemaNode } from "../schema_tree.ts";
import { languageOfTexts } from "../strings/language.ts";

type Cases = readonly Case[];

export function logicConstraints(
  node: SchemaNode,
  analysis: SchemaCases,
  context: CaseContext,
): Constraint[] {
  const reader = new LogicReader(node, analysis, context);
  const { value, resource } = node;
  if (!isObject(value)) return [];
  if (typeof value.$ref === "string" && !isAtLeast(resource.dialect, "2019-09")) {
    return [reader.reference("$ref", value.$ref)];
  }
  const constraints: Constraint[] = [];
  for (const keyword of Object.keys(value)) {
    const constraint = reader.read(keyword, value[keyword]!);
    if (constraint !== undefined) constraints.push(constraint);
  }
  return constraints;
}

/** Whether `type` and listed values leave any of a type, which is all that most schemas are asked. */
export function allowsType({ value, resource }: SchemaNode, type: JsonType): boolean {
  if (!isObject(value)) return value;
  if (Object.hasOwn(value, "$ref") && !isAtLeast(resource.dialect, "2019-09")) return true;
  const { type: names, enum: listed } = value;
  const isNamed = (name: JsonValue) => name === type || (name === "integer" && type === "number");
  if (names !== undefined && !(isArray(names) ? names.some(isNamed) : isNamed(names))) return false;
  if (isArray(listed) && !listed.some((one) => typeOf(one) === type)) return false;
  return !Object.hasOwn(value, "const") || typeOf(value.const!) === type;
}

class LogicReader {
  readonly #node: SchemaNode;
  readonly #analysis: SchemaCases;
  readonly #context: CaseContext;

  constructor(node: SchemaNode, analysis: SchemaCases, context: CaseContext) {
    this.#node = node;
    this.#analysis = analysis;
    this.#context = context;
  }

  read(keyword: string, value: JsonValue): Constraint | undefined {
    switch (keyword) {
      case "$ref":
        return this.reference(keyword, value as string);
      case "$dynamicRef":
        return this.#dynamicReference(value as string);
      case "$recursiveRef":
        return this.#recursiveReference(value as string);
      case "type":
        return this.#types(isArray(value) ? value : [value]);
      case "enum":
        return this.#values(keyword, value as readonly JsonValue[]);
      case "const":
        return this.#values(keyword, [value]);
      case "allOf":
        return this.#allOf(this.#children(keyword, value));
      case "anyOf":
        return this.#anyOf(this.#children(keyword, value));
      case "oneOf":
        return this.#oneOf(this.#children(keyword, value));
      case "not":
        return this.#not(this.#analysis.tree.child(this.#node, "not"));
      case "if":
        return this.#condition();
      default:
        return undefined;
    }
  }

  #children(keyword: string, value: JsonValue): SchemaNode[] {
    const { tree } = this.#analysis;
    return (value as readonly JsonValue[]).map((_, i) => tree.child(this.#node, keyword, i));
  }

  #holds(node: SchemaNode): Cases {
    return this.#analysis.casesOf(node, true, this.#context);
  }

  #fails(node: SchemaNode): Cases {
    return this.#analysis.casesOf(node, false, this.#context);
  }

  #both(parts: readonly JoinedPart[]): Cases {
    return this.#analysis.both(this.#node, this.#context.type, parts);
  }

  #refuted(node: SchemaNode): JoinedPart {
    return { refuted: { holds: () => this.#holds(node), fails: () => this.#fails(node) } };
  }

  reference(keyword: string, reference: string): Constraint {
    const target = this.#analysis.tree.resolve(this.#node, keyword, reference);
    return { holds: () => this.#holds(target), fails: () => this.#fails(target) };
  }

  #dynamicReference(reference: string): Constraint {
    const target = this.#analysis.tree.resolveDynamic(this.#node, "$dynamicRef", reference);
    return { holds: () => this.#holds(target), fails: () => this.#fails(target) };
  }

  #recursiveReference(reference: string): Constraint {
    if (this.#analysis.tree.resourceCount > 1) {
      throw new GrammarError(
        'Cannot enforce "$recursiveRef": several schemas have an identifier of their own',
        { path: `${this.#node.path}/$recursiveRef` },
      );
    }
    return this.reference("$recursiveRef", reference);
  }

  #types(names: readonly JsonValue[]): Constraint {
    const { type } = this.#context;
    const listed = names.includes(type);
    if (type === "number" && !listed && names.includes("integer")) {
      const isPlain = !isAtLeast(this.#node.resource.dialect, "draft-06");
      return {
        holds: () => [[{ kind: "integer", holds: true, isPlain }]],
        fails: () => [[{ kind: "integer", holds: false }]],
      };
    }
    return constant(listed);
  }

  #values(keyword: string, all: readonly JsonValue[]): Constraint {
    const { type } = this.#context;
    const values = all.filter((value) => typeOf(value) === type);
    if (values.length === 0) return constant(false);
    switch (type) {
      case "null":
        return constant(true);
      case "boolean": {
        const others = [true, false].filter((value) => !values.includes(value));
        return {
          holds: () => [[{ kind: "boolean", values: values as boolean[] }]],
          fails: () => (others.length > 0 ? [[{ kind: "boolean", values: others }]] : NO_CASE),
        };
      }
      case "number": {
        const numbers = this.#numbers(keyword, all);
        const fact = (holds: boolean): Cases => [[{ kind: "numbers", values: numbers, holds }]];
        return { holds: () => fact(true), fails: () => fact(false) };
      }
      case "string": {
        const language = languageOfTexts(values as string[], `${this.#node.path}/${keyword}`);
        const fact = (holds: boolean): Cases => [[{ kind: "language", language, holds }]];
        return { holds: () => fact(true), fails: () => fact(false) };
      }
      default:
        return this.#structures(keyword, all);
    }
  }

  /** Of those that are the same, the first. */
  #numbers(keyword: string, all: readonly JsonValue[]): ListedNumber[] {
    const numbers = new Map<string, ListedNumber>();
    all.forEach((one, i) => {
      if (!isNumber(one)) return;
      const value = decimalValue(one);
      const key = decimalText(value);
      if (numbers.has(key)) return;
      const text =
        keyword === "enum"
          ? spellingOf(all, i)
          : spellingOf(this.#node.value as JsonObject, keyword);
      numbers.set(key, { value, text });
    });
    return [...numbers.values()];
  }

  /** Arrays and objects: each is a schema that nothing else fits. */
  #structures(keyword: string, all: readonly JsonValue[]): Constraint {
    const schemas = all.flatMap((value, i) =>
      typeOf(value) === this.#context.type
        ? [this.#analysis.derive(this.#node, `${keyword} ${i}`, () => exactly(value))]
        : [],
    );
    // What is listed is not evaluated: that is for keywords that look into it.
    const context = { ...this.#context, annotate: false };
    return {
      holds: () => schemas.flatMap((schema) => this.#analysis.casesOf(schema, true, context)),
      fails: () => this.#both(schemas.map((schema) => this.#refuted(schema))),
    };
  }

  #allOf(parts: readonly SchemaNode[]): Constraint {
    return {
      holds: () => this.#both(parts.map((part) => () => this.#holds(part))),
      fails: () => parts.flatMap((part) => this.#fails(part)),
    };
  }

  #anyOf(parts: readonly SchemaNode[]): Constraint {
    /** Which of the parts hold, told apart, when at least one does. */
    const told = (i: number): Cases => {
      if (i === parts.length) return NO_CASE;
      const part = parts[i]!;
      const later = parts
        .slice(i + 1)
        .map((other) => () => [...this.#holds(other), ...this.#fails(other)]);
      return [
        ...this.#both([() => this.#holds(part), ...later]),
        ...this.#both([() => told(i + 1), this.#refuted(part)]),
      ];
    };
    return {
      holds: () => (this.#context.annotate ? told(0) : parts.flatMap((part) => this.#holds(part))),
      fails: () => this.#both(parts.map((part) => this.#refuted(part))),
    };
  }

  /** A part needs the others to fail only where it can hold together with them. */
  #oneOf(parts: readonly SchemaNode[]): Constraint {
    /** Those that any value of the type fits: of hundreds often only a few. */
    const fitting = () => parts.filter((part) => this.#holds(part).length > 0);
    const together = (a: SchemaNode, b: SchemaNode) =>
      this.#both([() => this.#holds(a), () => this.#holds(b)]);
    return {
      holds: () => {
        const possible = fitting();
        const rivals = possible.map((): SchemaNode[] => []);
        possible.forEach((a, i) => {
          possible.slice(0, i).forEach((b, j) => {
            if (together(a, b).length === 0) return;
            rivals[i]!.push(b);
            rivals[j]!.push(a);
          });
        });
        return possible.flatMap((part, i) =>
          this.#both([() => this.#holds(part), ...rivals[i]!.map((rival) => this.#refuted(rival))]),
        );
      },
      fails: () => [
        ...this.#both(parts.map((part) => this.#refuted(part))),
        ...fitting().flatMap((a, i, possible) =>
          possible.slice(0, i).flatMap((b) => together(a, b)),
        ),
      ],
    };
  }

  #not(part: SchemaNode): Constraint {
    const context = { ...this.#context, annotate: false };
    return {
      holds: () => this.#analysis.casesOf(part, false, context),
      fails: () => this.#analysis.casesOf(part, true, context),
    };
  }

  #condition(): Constraint {
    const { tree } = this.#analysis;
    const { value } = this.#node;
    const child = (keyword: string) =>
      isObject(value) && Object.hasOwn(value, keyword)
        ? tree.child(this.#node, keyword)
        : undefined;
    const condition = child("if")!;
    const [consequence, alternative] = [child("then"), child("else")];
    const holds = (node: SchemaNode | undefined) => () =>
      node === undefined ? EVERY_CASE : this.#holds(node);
    const fails = (node: SchemaNode | undefined) => () =>
      node === undefined ? NO_CASE : this.#fails(node);
    if (consequence === undefined && alternative === undefined && !this.#context.annotate) {
      return constant(true);
    }
    return {
      holds: () => [
        ...this.#both([holds(condition), holds(consequence)]),
        ...this.#both([holds(alternative), this.#refuted(condition)]),
      ],
      fails: () => [
        ...this.#both([fails(consequence), holds(condition)]),
        ...this.#both([fails(alternative), this.#refuted(condition)]),
      ],
    };
  }
}

function constant(fits: boolean): Constraint {
  return {
    holds: () => (fits ? EVERY_CASE : NO_CASE),
    fails: () => (fits ? NO_CASE : EVERY_CASE),
  };
}

/** A schema that an array or object fits and no other value does. */
function exactly(value: JsonValue): JsonObject {
  if (isArray(value)) {
    const size = value.length;
    const prefix = size > 0 ? { prefixItems: value.map((_, i) => constOf(value, i)) } : {};
    return { type: "array", ...prefix, minItems: size, maxItems: size };
  }
  const object = value as JsonObject;
  const keys = keysOf(object);
  const properties = Object.fromEntries(keys.map((key) => [key, constOf(object, key)]));
  keepOrder(properties, keys);
  return { type: "object", properties, required: keys, additionalProperties: false };
}
