/**
 * EBNF grammar -> `Grammar`, in the notation of the field (GBNF and its relatives).
 *
 * ```text
 * # a list of numbers
 * root   ::= "[" (number ("," space number)*)? "]"
 * number ::= "-"? [0-9]{1,9}
 *          | "unknown"
 * space  ::= [ \t]*
 * ```
 *
 * | written | meaning |
 * |---|---|
 * | `name ::= ...` | a rule; it begins a line and ends where the next one begins |
 * | `"..."`, `'...'` | a text |
 * | `[a-zé]`, `[^"\\]` | one character of a set, or one that is not in it |
 * | `.` | any character |
 * | `name` | what that rule matches |
 * | `<think>` | the special token of this name, as in GBNF |
 * | `a b`, `a \| b`, `(...)` | one after another, either, a group; an option may be empty |
 * | `(=...)`, `(?=...)`, `(?!...)` | the rest of the text begins so, or does not: lookahead |
 * | `a*`, `a+`, `a?`, `a{2}`, `a{2,}`, `a{,5}`, `a{2,5}` | repetitions |
 * | `#` | a comment to the end of the line |
 *
 * Lines may be broken anywhere between these. Names are letters, digits, `_`, `-` and `.`. Escapes
 * in texts and sets: `\n \t \r \b \f \v \a \e \0`, `\xHH`, `\uHHHH`, `\UHHHHHHHH`, and a backslash
 * before a character of the notation. A whole completion matches `root`.
 *
 * Rules may begin with themselves: they are rewritten. Refused, with the place: rules that are
 * missing, defined twice or have nothing behind `::=` (the empty text is `""`), a repetition of a
 * repetition without a group, lookahead for what is not regular, tokens by number `<[..]>` and
 * others than one `!<..>`, macros, and anything else that is not in the table. `(=` is a hint to
 * other engines, which do not look whether it holds; here it must.
 *
 * Works without recursion, so that deep nesting needs no deep stack.
 *
 * @module
 */

import { ANY_CODE_POINT } from "../automaton/code_points.ts";
import type { Marks } from "../constraints/marks.ts";
import { spendEffort } from "../effort.ts";
import { type Expression, type Grammar, rule, text } from "../expression.ts";
import type { GrammarError } from "../grammar_error.ts";
import { EbnfScanner } from "./ebnf_scanner.ts";
import { ExpressionGroups } from "./expression_groups.ts";
import { readToken } from "./grammar_scanner.ts";
import { withoutLeftRecursion } from "./left_recursion.ts";
import { withoutLookahead } from "./lookahead_product.ts";
import { Lookaheads } from "./lookaheads.ts";

export interface EbnfOptions {
  /** Special tokens that the grammar may name. Default none. */
  readonly marks?: Marks | undefined;
  /** Name of the rule that a whole completion matches. Default `root`. */
  readonly root?: string | undefined;
}

/**
 * Reads a grammar.
 *
 * @throws {GrammarError} with the position, line and column of what is wrong.
 */
export function parseEbnf(source: string, { root = "root", marks }: EbnfOptions = {}): Grammar {
  return new EbnfParser(source, marks).parse(root);
}

const REPETITIONS: Readonly<Record<string, { readonly min?: number; readonly max?: number }>> = {
  "*": {},
  "+": { min: 1 },
  "?": { max: 1 },
};

/** Parts of other dialects, by what they begin with. */
const REFUSED: readonly (readonly [string, string])[] = [
  ["(?", "lookbehind, or a group,"],
  ["<[", "a token by its number"],
  ["!", "an excluded token"],
  ["//", 'a comment that does not begin with "#"'],
];

/** Names that another dialect calls like functions. */
const MACROS: ReadonlySet<string> = new Set([
  "ExcludeToken",
  "Regex",
  "TagDispatch",
  "Token",
  "TokenTagDispatch",
]);

const PART_EFFORT = 1;

class EbnfParser {
  readonly #scanner: EbnfScanner;
  readonly #marks: Marks | undefined;
  readonly #rules = new Map<string, Expression>();
  readonly #defined = new Set<string>();
  /** Where each rule is first referred to. */
  readonly #references = new Map<string, number>();
  #name: string | undefined;
  /** Whether the rule has a part, in any of its options. */
  #hasParts = false;
  #groups = new ExpressionGroups(0);
  readonly #lookaheads = new Lookaheads();
  /** Lookaheads that are open, by where they begin. */
  readonly #openLookaheads = new Map<number, { readonly negated: boolean }>();

  constructor(source: string, marks: Marks | undefined) {
    this.#scanner = new EbnfScanner(source);
    this.#marks = marks;
  }

  parse(root: string): Grammar {
    const scanner = this.#scanner;
    scanner.skipSpace();
    while (!scanner.atEnd) {
      this.#step();
      scanner.skipSpace();
    }
    this.#finishRule();
    const grammar = { rules: this.#rules, root };
    this.#check(grammar);
    return this.#lookaheads.resolve(
      () => withoutLeftRecursion(withoutLookahead(grammar, this.#lookaheads)),
      (message, position) => scanner.error(message, position),
    );
  }

  #step(): void {
    spendEffort(PART_EFFORT);
    const scanner = this.#scanner;
    const { position } = scanner;
    const name = scanner.readName();
    if (name !== undefined) {
      scanner.skipSpace();
      if (scanner.skip("::=")) this.#beginRule(name, position);
      else this.#refer(name, position);
      return;
    }
    if (this.#name === undefined) throw this.#unexpected(position);
    const lookahead = scanner.match(/\((?:=|\?=|\?!)/y)?.[0];
    if (lookahead !== undefined) {
      this.#openLookaheads.set(position, { negated: lookahead.endsWith("!") });
      this.#groups.open(position, ")");
      return;
    }
    this.#refuseDialects(position);
    const character = scanner.next();
    switch (character) {
      case '"':
      case "'":
        this.#add(text(scanner.readLiteral(character)));
        break;
      case "[":
        this.#add({ kind: "class", points: scanner.readClass() });
        break;
      case ".":
        this.#add({ kind: "class", points: ANY_CODE_POINT });
        break;
      case "(":
        this.#groups.open(position, ")");
        break;
      case ")":
        this.#closeGroup(position);
        break;
      case "|":
        this.#groups.or();
        break;
      case "<":
        scanner.position = position;
        this.#add(readToken(scanner, this.#marks));
        break;
      case "*":
      case "+":
      case "?":
        this.#repeat(REPETITIONS[character]!, position);
        break;
      case "{":
        scanner.position = position;
        this.#repeat(scanner.readBounds(), position);
        break;
      default:
        throw this.#unexpected(position);
    }
  }

  #unexpected(position: number): GrammarError {
    const scanner = this.#scanner;
    scanner.position = position;
    const where = this.#name === undefined ? " where a rule should begin" : "";
    return scanner.malformed(`"${scanner.peek()}" is unexpected${where}`, position);
  }

  #refuseDialects(position: number): void {
    const found = REFUSED.find(([begin]) => this.#scanner.sees(begin));
    if (found !== undefined) {
      throw this.#scanner.error(
        `Cannot use ${found[1]} "${found[0]}": the dialect does not have it`,
        position,
      );
    }
  }

  #add(part: Expression): void {
    this.#groups.add(part);
    this.#hasParts = true;
  }

  #closeGroup(position: number): void {
    if (this.#groups.close === "") {
      throw this.#scanner.malformed('")" closes no group', position);
    }
    const begin = this.#groups.position;
    const lookahead = this.#openLookaheads.get(begin);
    const body = this.#groups.leave();
    if (lookahead === undefined) this.#add(body);
    else this.#groups.addOnce(this.#lookaheads.add({ ...lookahead, body, position: begin }));
    this.#hasParts = true;
  }

  #repeat(bounds: { readonly min?: number; readonly max?: number }, position: number): void {
    if (this.#groups.repeat(bounds)) return;
    throw this.#scanner.malformed("there is nothing to repeat, or it is repeated", position);
  }

  #refer(name: string, position: number): void {
    const scanner = this.#scanner;
    if (this.#name === undefined) {
      throw scanner.malformed(`"::=" is missing behind "${name}"`, position);
    }
    if (MACROS.has(name) && scanner.source[position + name.length] === "(") {
      throw scanner.error(`Cannot use the macro "${name}": the dialect has no macros`, position);
    }
    if (!this.#references.has(name)) this.#references.set(name, position);
    this.#add(rule(name));
  }

  #beginRule(name: string, position: number): void {
    const scanner = this.#scanner;
    this.#finishRule();
    if (!scanner.beginsLine(position)) {
      throw scanner.malformed(`rule "${name}" does not begin a line`, position);
    }
    if (this.#defined.has(name)) {
      throw scanner.malformed(`rule "${name}" is defined twice`, position);
    }
    this.#defined.add(name);
    this.#name = name;
    this.#hasParts = false;
    this.#groups = new ExpressionGroups(position);
  }

  #finishRule(): void {
    if (this.#name === undefined) return;
    if (this.#groups.close !== "") {
      throw this.#scanner.malformed('a group begins and ")" is missing', this.#groups.position);
    }
    if (!this.#hasParts) {
      throw this.#scanner.malformed(
        `rule "${this.#name}" has nothing behind "::=", and the empty text is written '""'`,
        this.#groups.position,
      );
    }
    this.#rules.set(this.#name, this.#groups.finish());
  }

  #missing(name: string, position = this.#scanner.position): GrammarError {
    const hint = name.includes(".") ? '; "." for any character stands behind a space' : "";
    const message = `Cannot find rule "${name}": the grammar does not define it${hint}`;
    return this.#scanner.error(message, position);
  }

  #check(grammar: Grammar): void {
    for (const [name, position] of this.#references) {
      if (!this.#rules.has(name)) throw this.#missing(name, position);
    }
    if (!this.#rules.has(grammar.root)) throw this.#missing(grammar.root);
  }
}
