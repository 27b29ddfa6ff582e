/**
 * JSON written down with what `JSON.stringify` cannot write: keys that occur twice, numbers beyond
 * doubles, text that is no JSON.
 *
 * @module
 */

/** Stands in a value's place as it is. */
export class Raw {
  readonly text: string;

  constructor(text: string) {
    this.text = text;
  }
}

/** An object by its fields in order, which may have equal names. */
export class Fields {
  readonly entries: [string, unknown][];

  constructor(entries: readonly (readonly [string, unknown])[]) {
    this.entries = entries.map(([name, value]) => [name, value]);
  }
}

/** The same value with `Fields` for every object, so that it can be changed in place. */
export function toFields(value: unknown): unknown {
  if (Array.isArray(value)) return value.map(toFields);
  if (typeof value !== "object" || value === null) return value;
  return new Fields(Object.entries(value).map(([name, inside]) => [name, toFields(inside)]));
}

/** JSON of what `toFields` gave, however it was changed since. */
export function writeJson(value: unknown): string {
  if (value instanceof Raw) return value.text;
  if (Array.isArray(value)) return `[${value.map(writeJson).join(",")}]`;
  if (value instanceof Fields) {
    const fields = value.entries.map(([name, one]) => `${JSON.stringify(name)}:${writeJson(one)}`);
    return `{${fields.join(",")}}`;
  }
  return JSON.stringify(value) ?? "null";
}
