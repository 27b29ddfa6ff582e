/**
 * `pattern` and the keys of `patternProperties`: texts with a match anywhere in them.
 *
 * @module
 */

import { GrammarError } from "../../grammar_error.ts";
import { parseRegex } from "../../regex/parse_regex.ts";
import { Language } from "./language.ts";

/**
 * @param path Of the keyword, for errors.
 * @throws {GrammarError} for a pattern that is malformed or cannot be enforced.
 */
export function patternLanguage(pattern: string, path: string): Language {
  try {
    return new Language(parseRegex(pattern, { match: "search" }));
  } catch (error) {
    if (!(error instanceof GrammarError)) throw error;
    throw new GrammarError(error.message, { path, cause: error });
  }
}
