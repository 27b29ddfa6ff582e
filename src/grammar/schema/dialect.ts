/**
 * The dialects of JSON Schema, and their names.
 *
 * @module
 */

export const DIALECTS = ["draft-04", "draft-06", "draft-07", "2019-09", "2020-12"] as const;

export type Dialect = (typeof DIALECTS)[number];

const uriOf = (dialect: Dialect): string =>
  dialect.startsWith("draft")
    ? `json-schema.org/${dialect}/schema`
    : `json-schema.org/draft/${dialect}/schema`;

/** Without "#" at the end. */
export const DIALECT_URIS: ReadonlyMap<string, Dialect> = new Map(
  DIALECTS.flatMap((dialect): (readonly [string, Dialect])[] =>
    ["http", "https"].map((scheme) => [`${scheme}://${uriOf(dialect)}`, dialect]),
  ),
);

export function isAtLeast(dialect: Dialect, other: Dialect): boolean {
  return DIALECTS.indexOf(dialect) >= DIALECTS.indexOf(other);
}
