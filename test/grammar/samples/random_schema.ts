/**
 * Random JSON schemas, and values that fit them or nearly do, the same for the same seed.
 *
 * @module
 */
import type { Random } from "./sample_text.ts";

type Schema = boolean | { [keyword: string]: unknown };

const KEYS = ["a", "b", "ab", 'q"', "é"];
const TEXTS = ["", "a", "ab", "b", "é", "xyz", "😀", 'q"', "2024-02-29", "127.0.0.1"];
const NUMBERS = [0, 1, -1, 2, 3, 2.5, 10, -7, 12, 100];
const PATTERNS = ["^a", "b$", "^[a-z]*$", "é|y", "^.{1,2}$"];
const TYPES = ["null", "boolean", "integer", "number", "string", "array", "object"];

/** Draws schemas of dialect 2020-12. */
export class SchemaSource {
  readonly #random: Random;
  /** Either `contains` or `unevaluatedItems`: ajv takes all items for evaluated by the first. */
  readonly #withContains: boolean;

  constructor(random: Random) {
    this.#random = random;
    this.#withContains = random(2) === 0;
  }

  schema(): Schema {
    const schema = this.#object(3);
    return { ...schema, $defs: { one: this.#object(1), two: this.#object(1) } };
  }

  #pick<T>(list: readonly T[]): T {
    return list[this.#random(list.length)]!;
  }

  #some<T>(list: readonly T[], most: number): T[] {
    const count = this.#random(most + 1);
    return [...new Set(Array.from({ length: count }, () => this.#pick(list)))];
  }

  #part(depth: number): Schema {
    const kind = this.#random(12);
    if (kind === 0) return this.#random(3) > 0;
    if (kind === 1 && depth < 3) return { $ref: this.#pick(["#/$defs/one", "#/$defs/two", "#"]) };
    return this.#object(depth - 1);
  }

  #parts(depth: number): Schema[] {
    return Array.from({ length: 1 + this.#random(3) }, () => this.#part(depth));
  }

  #object(depth: number): { [keyword: string]: unknown } {
    const type = this.#pick(TYPES);
    const schema: { [keyword: string]: unknown } = this.#keywords(type, depth);
    if (this.#random(10) > 0)
      schema.type = this.#random(5) === 0 ? [type, this.#pick(TYPES)] : type;
    if (Array.isArray(schema.type)) schema.type = [...new Set(schema.type)];
    if (depth > 0 && this.#random(3) === 0) this.#join(schema, type, depth);
    return schema;
  }

  #join(schema: { [keyword: string]: unknown }, type: string, depth: number): void {
    const similar = () => {
      // ajv counts as evaluated what `then` evaluates also where `if` does not hold.
      const {
        unevaluatedItems: _,
        unevaluatedProperties: __,
        ...rest
      } = this.#keywords(type, depth - 1);
      return rest;
    };
    const keyword = this.#pick(["anyOf", "oneOf", "allOf", "not", "if", "anyOf", "oneOf"]);
    if (keyword === "not") schema.not = similar();
    else if (keyword === "if") {
      Object.assign(schema, { if: similar(), [this.#pick(["then", "else"])]: similar() });
    } else
      schema[keyword] = this.#random(3) === 0 ? this.#parts(depth - 1) : [similar(), similar()];
  }

  #keywords(type: string, depth: number): { [keyword: string]: unknown } {
    if (this.#random(8) === 0)
      return {
        enum: [1, "a", null, true, 2.5, [], {}, ["a", 1], { a: 1 }]
          .filter(() => this.#random(2) === 0)
          .concat([this.#pick(TEXTS)]),
      };
    if (this.#random(12) === 0)
      return { const: this.#pick([...NUMBERS, ...TEXTS, { a: 1, b: [] }, [[1], "x"]]) };
    switch (type) {
      case "integer":
      case "number":
        return this.#numbers();
      case "string":
        return this.#strings();
      case "array":
        return depth > 0 ? this.#arrays(depth) : { maxItems: 1 };
      case "object":
        return depth > 0 ? this.#objects(depth) : { maxProperties: 1 };
      default:
        return {};
    }
  }

  #numbers(): { [keyword: string]: unknown } {
    const schema: { [keyword: string]: unknown } = {};
    if (this.#random(2) === 0)
      schema[this.#pick(["minimum", "exclusiveMinimum"])] = this.#pick(NUMBERS);
    if (this.#random(2) === 0)
      schema[this.#pick(["maximum", "exclusiveMaximum"])] = this.#pick(NUMBERS);
    if (this.#random(4) === 0) schema.multipleOf = this.#pick([1, 2, 3, 2.5]);
    return schema;
  }

  #strings(): { [keyword: string]: unknown } {
    const schema: { [keyword: string]: unknown } = {};
    if (this.#random(3) === 0) schema.minLength = this.#random(4);
    if (this.#random(3) === 0) schema.maxLength = this.#random(5);
    if (this.#random(3) === 0) schema.pattern = this.#pick(PATTERNS);
    if (this.#random(8) === 0) schema.format = this.#pick(["date", "ipv4", "uuid"]);
    return schema;
  }

  #arrays(depth: number): { [keyword: string]: unknown } {
    const schema: { [keyword: string]: unknown } = {};
    if (this.#random(2) === 0) schema.items = this.#part(depth);
    if (this.#random(3) === 0) schema.prefixItems = this.#parts(depth);
    if (this.#random(3) === 0) schema.minItems = this.#random(3);
    if (this.#random(3) === 0) schema.maxItems = this.#random(4);
    if (this.#withContains && this.#random(3) === 0) {
      const counted: { [keyword: string]: unknown } = { contains: this.#part(depth) };
      if (this.#random(2) === 0) counted.minContains = this.#random(3);
      if (this.#random(2) === 0) counted.maxContains = this.#random(3);
      // Beside `prefixItems`, ajv takes the empty array for one that contains all.
      schema.allOf = [counted];
    }
    if (this.#random(8) === 0) schema.uniqueItems = true;
    if (!this.#withContains && this.#random(4) === 0) {
      schema.unevaluatedItems = this.#part(depth);
    }
    return schema;
  }

  #objects(depth: number): { [keyword: string]: unknown } {
    const map = (keys: readonly string[]) =>
      Object.fromEntries(keys.map((key) => [key, this.#part(depth)]));
    const schema: { [keyword: string]: unknown } = { properties: map(this.#some(KEYS, 4)) };
    if (this.#random(2) === 0) schema.required = this.#some(KEYS, 2);
    if (this.#random(4) === 0) schema.patternProperties = map(this.#some(PATTERNS, 2));
    if (this.#random(2) === 0) schema.additionalProperties = this.#part(depth);
    if (this.#random(6) === 0) schema.propertyNames = this.#strings();
    if (this.#random(6) === 0) schema.minProperties = this.#random(3);
    if (this.#random(6) === 0) schema.maxProperties = this.#random(4);
    if (this.#random(6) === 0)
      schema.dependentRequired = { [this.#pick(KEYS)]: this.#some(KEYS, 2) };
    if (this.#random(6) === 0) schema.dependentSchemas = map(this.#some(KEYS, 1));
    if (this.#random(6) === 0) schema.unevaluatedProperties = this.#part(depth);
    return schema;
  }

  /** A value of what the schema speaks of, so that it has a chance to fit. */
  value(depth = 3): unknown {
    switch (this.#random(depth > 0 ? 9 : 5)) {
      case 0:
        return null;
      case 1:
        return this.#random(2) === 0;
      case 2:
        return this.#pick(NUMBERS);
      case 3:
      case 4:
        return this.#pick([...TEXTS, ...NUMBERS]);
      case 5:
      case 6:
        return Array.from({ length: this.#random(4) }, () => this.value(depth - 1));
      default:
        return Object.fromEntries(
          this.#some([...KEYS, "x"], 4).map((key) => [key, this.value(depth - 1)]),
        );
    }
  }

  /** A value with one part of it replaced, left out or added. */
  mutate(value: unknown): unknown {
    if (this.#random(4) === 0) return this.value(2);
    if (Array.isArray(value)) {
      const place = this.#random(value.length + 1);
      const change = this.#random(3);
      if (change === 0) return value.toSpliced(place, 1);
      if (change === 1) return value.toSpliced(place, 0, this.value(1));
      return value.map((item, i) => (i === place ? this.mutate(item) : item));
    }
    if (typeof value !== "object" || value === null) return this.value(1);
    const keys = Object.keys(value);
    const key = this.#pick([...keys, ...KEYS, "x"]);
    const { [key]: old, ...rest } = value as { [key: string]: unknown };
    return this.#random(3) === 0
      ? rest
      : { ...value, [key]: old === undefined ? this.value(1) : this.mutate(old) };
  }
}
