/**
 * The modules that a checkpoint's quantization leaves out, by the names, parts of names and patterns
 * that its config lists.
 *
 * Lists may be long and patterns of any kind, so a name costs the same whatever they are: parts are
 * looked up, and patterns run as automata, which have no way to go back.
 *
 * @module
 */
import { automatonOf } from "../../grammar/automaton/code_point_automaton.ts";
import { accepts } from "../../grammar/automaton/regular.ts";
import { limitEffort } from "../../grammar/effort.ts";
import type { CodePointAutomaton } from "../../grammar/expression.ts";
import { GrammarError } from "../../grammar/grammar_error.ts";
import { parseRegex } from "../../grammar/regex/parse_regex.ts";

const PATTERN = "re:";
/** Patterns that are heeded, and UTF-16 units of each. */
export const MAX_PATTERNS = 256;
export const MAX_PATTERN_LENGTH = 1024;
/** Microseconds to make each pattern an automaton in. */
const EFFORT = 5000;

export class ListedModules {
  readonly #parts: ReadonlySet<string>;
  readonly #patterns: readonly CodePointAutomaton[];

  /** @param listed Modules, parts of their names between dots, or patterns after "re:". */
  constructor(listed: readonly string[]) {
    this.#parts = new Set(listed.filter((entry) => !entry.startsWith(PATTERN)));
    this.#patterns = listed
      .filter((entry) => entry.startsWith(PATTERN))
      .slice(0, MAX_PATTERNS)
      .map((entry) => automatonFrom(entry.slice(PATTERN.length)))
      .filter((automaton) => automaton !== undefined);
  }

  /** @param tensor Its module is meant: the name up to its last dot. */
  has(tensor: string): boolean {
    const module = tensor.slice(0, tensor.lastIndexOf("."));
    const names = module.split(".");
    for (let first = 0; first < names.length; first++) {
      for (let end = first + 1; end <= names.length; end++) {
        if (this.#parts.has(names.slice(first, end).join("."))) return true;
      }
    }
    return this.#patterns.some((automaton) => accepts(automaton, module));
  }
}

/** Of a pattern that a name begins with; undefined for one of another language, which is for people to read. */
function automatonFrom(pattern: string): CodePointAutomaton | undefined {
  if (pattern.length > MAX_PATTERN_LENGTH) return undefined;
  try {
    return limitEffort(EFFORT, () => automatonOf(parseRegex(`(?:${pattern})[^]*`)));
  } catch (error) {
    if (error instanceof GrammarError) return undefined;
    throw error;
  }
}
