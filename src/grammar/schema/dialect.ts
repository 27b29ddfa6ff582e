/**
 * The dialects of JSON Schema, and their names.
 *
 * @module
 */

export const DIALECTS = [
  "draft-03",
  "draft-04",
  "draft-06",
  "draft-07",
  "2019-09",
  "2020-12",
] as const;

export type Dialect = (typeof DIALECTS)[number];

/** That of schemas, and that of hyper-schemas, which constrains values no further. */
const urisOf = (dialect: Dialect): readonly string[] => {
  const folder = dialect.startsWith("draft") ? dialect : `draft/${dialect}`;
  return ["schema", "hyper-schema"].map((name) => `json-schema.org/${folder}/${name}`);
};

/** Without "#" at the end. */
export const DIALECT_URIS: ReadonlyMap<string, Dialect> = new Map(
  DIALECTS.flatMap((dialect) =>
    urisOf(dialect).flatMap((uri): (readonly [string, Dialect])[] =>
      ["http", "https"].map((scheme) => [`${scheme}://${uri}`, dialect]),
    ),
  ),
);

export function isAtLeast(dialect: Dialect, other: Dialect): boolean {
  return DIALECTS.indexOf(dialect) >= DIALECTS.indexOf(other);
}

/** Whether schemas are named by `id`, not `$id`. */
export function namesById(dialect: Dialect): boolean {
  return !isAtLeast(dialect, "draft-06");
}
