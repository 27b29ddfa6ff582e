/**
 * Schemas as people write them, with values that fit and values that do not.
 *
 * @module
 */

export interface CollectedSchema {
  readonly name: string;
  readonly schema: Readonly<Record<string, unknown>>;
  readonly valid: readonly unknown[];
  readonly invalid: readonly unknown[];
}
