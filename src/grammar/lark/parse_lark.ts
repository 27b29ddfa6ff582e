/**
 * Grammar in Lark's notation -> `Grammar`.
 *
 * ```text
 * %import common (INT, WS)
 * %ignore WS
 * start: item ("," item)*     // a list
 * item: NAME "=" INT -> pair
 * NAME: /[a-z]+/
 * ```
 *
 * | written | meaning |
 * |---|---|
 * | `name: ...`, `NAME: ...` | a rule, a terminal; an option may go on with `\|` on the next line |
 * | `"..."`, `"..."i`, `"a".."z"`, `/.../ims` | a text, one in any case, a range, an expression |
 * | `a b`, `a \| b`, `(...)`, `[...]` | one after another, either, a group, one that may be absent |
 * | `a?`, `a*`, `a+`, `a~3`, `a~2..4`, `a{2,4}` | repetitions |
 * | `%import common.NAME -> OTHER` | a terminal of the library |
 * | `%ignore NAME` | what may stand behind every terminal, text and expression of a rule |
 * | `%json {...}` | JSON that fits the schema |
 * | `%grammar_options {"allow_initial_skip": true}` | lets what is ignored stand at the start too |
 * | `<think>` | the special token of this name |
 * | `//`, `#` | a comment to the end of the line |
 *
 * A whole completion matches `start`. It is read without a lexer: a text counts if there is any way
 * to cut it into terminals, whichever of them a lexer would prefer. So priorities, and all that
 * only shapes a tree (`?name`, `!name`, `-> alias`), say nothing. Refused, with the place:
 * templates, attributes (`name[lazy]`), other directives, grammars by name, tokens by number, and
 * expressions with lookbehind or anchors, which would look at the text before a terminal. Lookahead
 * (`/[a-z]+(?!\()/`) looks at the rest of the text, whichever terminals it is of.
 *
 * @module
 */

import type { SchemaContext } from "../constraints/schema_context.ts";
import { ExpressionGroups } from "../ebnf/expression_groups.ts";
import { readToken } from "../ebnf/grammar_scanner.ts";
import { withoutLeftRecursion } from "../ebnf/left_recursion.ts";
import { withoutLookahead } from "../ebnf/lookahead_product.ts";
import { Lookaheads } from "../ebnf/lookaheads.ts";
import { spendEffort } from "../effort.ts";
import { embed } from "../embed.ts";
import { choice, type Expression, type Grammar, repeat, rule, sequence } from "../expression.ts";
import { GrammarError } from "../grammar_error.ts";
import { parseRegex } from "../regex/parse_regex.ts";
import { jsonSchemaGrammar } from "../schema/json_schema.ts";
import { COMMON_TERMINALS } from "./common_terminals.ts";
import { LarkScanner } from "./lark_scanner.ts";

const FIRST_LINES = /(?:[ \t\r\n]|(?:#|\/\/)[^\n]*)*/y;
const FIRST_STATEMENT =
  /%[a-z_]+|[?!]*[A-Za-z_][\w-]*(?:\.-?\d+|\[[^\]\n]*\]|\{[^}\n]*\})?[ \t]*:(?!:=)/y;

/** Whether a grammar is in Lark's notation: its first line defines with `:`, or is a directive. */
export function isLark(source: string): boolean {
  FIRST_LINES.lastIndex = 0;
  FIRST_LINES.exec(source);
  FIRST_STATEMENT.lastIndex = FIRST_LINES.lastIndex;
  return FIRST_STATEMENT.test(source);
}

/** @throws {GrammarError} with the position, line and column of what is wrong. */
export function parseLark(source: string, context: SchemaContext): Grammar {
  return new LarkParser(source, context).parse();
}

const IGNORED = rule("what is ignored");
const PART_EFFORT = 1;
const CLOSING: Readonly<Record<string, string>> = { "(": ")", "[": "]" };

class LarkParser {
  readonly #scanner: LarkScanner;
  readonly #context: SchemaContext;
  readonly #rules = new Map<string, Expression>();
  readonly #warnings: string[] = [];
  /** Where each rule is first referred to. */
  readonly #references = new Map<string, number>();
  readonly #ignored: Expression[] = [];
  /** Whether the grammar ignores anything, before it is read that far. */
  readonly #ignores: boolean;
  readonly #lookaheads = new Lookaheads();
  #skipsAtStart = false;
  /** Whether a terminal is being read, in which nothing is ignored. */
  #inTerminal = false;
  #groups = new ExpressionGroups(0);

  constructor(source: string, context: SchemaContext) {
    this.#scanner = new LarkScanner(source);
    this.#context = context;
    this.#ignores = /^[ \t]*%ignore\b/m.test(source);
  }

  parse(): Grammar {
    const scanner = this.#scanner;
    scanner.skipLines();
    while (!scanner.atEnd) {
      this.#readStatement();
      scanner.skipLines();
    }
    if (this.#ignores) this.#rules.set(IGNORED.name, repeat(choice(this.#ignored)));
    for (const [name, position] of this.#references) this.#checkDefined(name, position);
    this.#checkDefined("start", scanner.position);
    const start = rule("start");
    this.#rules.set(" root", this.#skipsAtStart ? sequence([IGNORED, start]) : start);
    const grammar = { rules: this.#rules, root: " root", warnings: this.#warnings };
    return this.#lookaheads.resolve(
      () => withoutLeftRecursion(withoutLookahead(grammar, this.#lookaheads)),
      (message, position) => scanner.error(message, position),
    );
  }

  #checkDefined(name: string, position: number): void {
    if (this.#rules.has(name)) return;
    throw this.#scanner.error(
      `Cannot find rule "${name}": the grammar does not define it`,
      position,
    );
  }

  #readStatement(): void {
    const scanner = this.#scanner;
    const { position } = scanner;
    if (scanner.skip("%")) {
      this.#readDirective(position);
      return;
    }
    scanner.match(/[?!]+/y);
    const name = scanner.readName();
    if (name === undefined) throw this.#unexpected("where a rule should begin");
    if (scanner.sees("[")) throw this.#refusal(`attributes of "${name}"`, scanner.position);
    if (scanner.sees("{")) throw this.#refusal(`the template "${name}"`, scanner.position);
    scanner.match(/\.-?[0-9]+/y);
    scanner.skipInLine();
    if (!scanner.skip(":")) throw scanner.malformed(`":" is missing behind "${name}"`);
    this.#inTerminal = isTerminal(name);
    this.#define(name, this.#readBody(), position);
  }

  #define(name: string, body: Expression, position: number): void {
    if (this.#rules.has(name)) {
      throw this.#scanner.malformed(`"${name}" is defined twice`, position);
    }
    this.#rules.set(name, body);
  }

  #refusal(what: string, position: number): GrammarError {
    return this.#scanner.error(`Cannot use ${what}: the dialect does not have it`, position);
  }

  #unexpected(where = ""): GrammarError {
    const shown = this.#scanner.atEnd ? "the end" : JSON.stringify(this.#scanner.peek());
    return this.#scanner.malformed(`${shown} is unexpected ${where}`.trim());
  }

  #readDirective(position: number): void {
    const scanner = this.#scanner;
    const name = scanner.readName();
    scanner.skipInLine();
    switch (name) {
      case "import":
        this.#readImport();
        break;
      case "ignore":
        this.#inTerminal = true;
        this.#ignored.push(this.#readBody());
        break;
      case "grammar_options":
        this.#readOptions(position);
        break;
      default:
        throw this.#refusal(`the directive "%${name ?? ""}"`, position);
    }
    scanner.skipInLine();
    if (!scanner.atEnd && !scanner.sees("\n")) throw this.#unexpected();
  }

  #readImport(): void {
    const scanner = this.#scanner;
    const { position } = scanner;
    if (scanner.readName() !== "common") {
      throw scanner.error('Cannot import the terminals: the only library is "common"', position);
    }
    if (scanner.skip(".")) {
      const name = scanner.readName() ?? "";
      scanner.skipInLine();
      if (scanner.skip("->")) scanner.skipInLine();
      const other = scanner.readName();
      this.#import(name, other ?? name, position);
      return;
    }
    scanner.skipInLine();
    if (!scanner.skip("(")) throw this.#unexpected();
    do {
      scanner.skipLines();
      const name = scanner.readName() ?? "";
      this.#import(name, name, position);
      scanner.skipLines();
    } while (scanner.skip(","));
    if (!scanner.skip(")")) throw this.#unexpected();
  }

  #import(name: string, as: string, position: number): void {
    const pattern = COMMON_TERMINALS.get(name);
    if (pattern === undefined) {
      throw this.#scanner.error(`Cannot import "${name}": common has no such terminal`, position);
    }
    this.#define(as, parseRegex(pattern), position);
  }

  #readOptions(position: number): void {
    const options = this.#readJson(position);
    const unknown = Object.keys(options).find((name) => name !== "allow_initial_skip");
    if (unknown !== undefined) throw this.#refusal(`the option "${unknown}"`, position);
    this.#skipsAtStart = "allow_initial_skip" in options && options.allow_initial_skip === true;
    if (!this.#ignores) this.#skipsAtStart = false;
  }

  #readJson(position: number): object {
    try {
      return JSON.parse(this.#scanner.readJson());
    } catch (error) {
      if (error instanceof GrammarError) throw error;
      throw this.#scanner.malformed("what stands in braces is not JSON", position);
    }
  }

  /** What a name stands for, to the end of its last line. */
  #readBody(): Expression {
    const scanner = this.#scanner;
    this.#groups = new ExpressionGroups(scanner.position);
    while (this.#goesOn()) this.#readPart();
    if (this.#groups.close !== "") {
      const problem = `a group begins and "${this.#groups.close}" is missing`;
      throw scanner.malformed(problem, this.#groups.position);
    }
    return this.#groups.finish();
  }

  /** Inside groups ends of lines count nothing, and outside of them not where a bar follows. */
  #goesOn(): boolean {
    const scanner = this.#scanner;
    if (this.#groups.close !== "") {
      scanner.skipLines();
      return !scanner.atEnd;
    }
    scanner.skipInLine();
    if (!scanner.atEnd && !scanner.sees("\n")) return true;
    const { position } = scanner;
    scanner.skipLines();
    const isMore = scanner.sees("|");
    if (!isMore) scanner.position = position;
    return isMore;
  }

  #readPart(): void {
    spendEffort(PART_EFFORT);
    const scanner = this.#scanner;
    const groups = this.#groups;
    const { position } = scanner;
    if (scanner.skip("|")) {
      groups.or();
    } else if (scanner.sees("(") || scanner.sees("[")) {
      const open = scanner.next();
      groups.open(position, CLOSING[open]!);
    } else if (groups.close !== "" && scanner.skip(groups.close)) {
      const isOptional = groups.close === "]";
      const part = groups.leave();
      groups.add(isOptional ? repeat(part, { max: 1 }) : part);
    } else if (scanner.skip("->")) {
      scanner.skipInLine();
      if (scanner.readName() === undefined) throw this.#unexpected();
    } else {
      const bounds = scanner.readBounds();
      if (bounds === undefined) groups.add(this.#readAtom());
      else if (!groups.repeat(bounds))
        throw scanner.malformed("there is nothing to repeat", position);
    }
  }

  #readAtom(): Expression {
    const scanner = this.#scanner;
    const { position } = scanner;
    if (scanner.sees('"')) return this.#lexeme(scanner.readLiteral());
    if (scanner.sees("/")) return this.#lexeme(scanner.readRegex(this.#lookaheads));
    const name = scanner.readName();
    if (name !== undefined) {
      if (scanner.sees("{")) throw this.#refusal(`the template "${name}"`, position);
      if (!this.#references.has(name)) this.#references.set(name, position);
      if (isTerminal(name)) return this.#lexeme(rule(name));
      this.#refuseInTerminal(`rule "${name}"`, position);
      return rule(name);
    }
    if (scanner.skip("%json")) return this.#readSchema(position);
    if (scanner.sees("%")) throw this.#refusal("another directive than %json here", position);
    if (scanner.sees("<[")) throw this.#refusal("a token by its number", position);
    if (scanner.sees("<")) {
      this.#refuseInTerminal("a special token", position);
      return readToken(scanner, this.#context.marks);
    }
    if (scanner.sees("@")) throw this.#refusal("a grammar by its name", position);
    throw this.#unexpected();
  }

  #refuseInTerminal(what: string, position: number): void {
    if (!this.#inTerminal) return;
    throw this.#scanner.error(`Cannot use ${what}: it stands inside a terminal`, position);
  }

  #lexeme(part: Expression): Expression {
    return this.#inTerminal || !this.#ignores ? part : sequence([part, IGNORED]);
  }

  #readSchema(position: number): Expression {
    this.#refuseInTerminal("%json", position);
    this.#scanner.skipLines();
    const schema = this.#readJson(position);
    try {
      const grammar = jsonSchemaGrammar(schema, this.#context.json);
      for (const warning of grammar.warnings ?? []) this.#warnings.push(warning);
      return embed(this.#rules, grammar, { prefix: `json ${position} ` });
    } catch (error) {
      if (!(error instanceof GrammarError)) throw error;
      throw this.#scanner.error(error.message, position);
    }
  }
}

/** Names of terminals begin with a capital letter behind their underscores. */
function isTerminal(name: string): boolean {
  return /^_*[A-Z]/.test(name);
}
