/**
 * What an answer under `/v1` says beside its choices.
 *
 * @module
 */

/** @param warnings What was ignored of the request, in sentences. */
export function wireMetadata(warnings: readonly string[]): object {
  return { weight_version: "default", ...wireWarnings(warnings) };
}

/** Absent where there are none. */
export function wireWarnings(warnings: readonly string[]): {
  readonly warnings?: readonly string[];
} {
  return warnings.length === 0 ? {} : { warnings };
}
