/**
 * A regular language of strings, read from a pattern, a format or a list of texts.
 *
 * @module
 */

import { automatonOf } from "../../automaton/code_point_automaton.ts";
import {
  ANY_CODE_POINT,
  type CodePoints,
  codePointsOf,
  invert,
} from "../../automaton/code_points.ts";
import {
  AutomatonBuilder,
  accepts,
  complement,
  intersection,
  MAX_REGULAR_STATES,
} from "../../automaton/regular.ts";
import { type CodePointAutomaton, type Expression, regular } from "../../expression.ts";
import { GrammarError } from "../../grammar_error.ts";

export interface LanguageOptions
  extends Partial<
    Pick<
      Language,
      "isPlain" | "isPart" | "bound" | "least" | "most" | "texts" | "content" | "rules" | "spelled"
    >
  > {
  /** Whether a text is meant by it. Default by its automaton. */
  readonly has?: (text: string) => boolean;
}

export class Language {
  /**
   * Whether printable ASCII is only offered as it is: no program writes the digits of a date as
   * escapes, and without them the grammar is a tenth of the size.
   */
  readonly isPlain: boolean;
  /**
   * Whether it is a part of what is meant, and has no opposite. Whatever need not be escaped then
   * is not: properties of Unicode are hundreds of ranges, each with escapes of its own.
   */
  readonly isPart: boolean;
  /** The most characters of its texts, which its automaton leaves to those who count them. */
  readonly bound: number;
  /** All its texts, when it was made from a list of them. */
  readonly texts: ReadonlySet<string> | undefined;
  /**
   * What is written for it inside the quotes of a string, where that is more than its expression:
   * such a language has no opposite either.
   */
  readonly content: Expression | undefined;
  /**
   * The same texts as those of its expression, as they are written inside the quotes of a string where
   * nothing else is asked of it: a smaller grammar, as its lengths are counted.
   */
  readonly spelled: (() => Expression) | undefined;
  /** Rules that the content refers to, made when a schema first asks for them. */
  readonly rules: (() => ReadonlyMap<string, Expression>) | undefined;
  /** The fewest and the most characters of a text of the content. Default 0 and any number. */
  readonly least: number;
  readonly most: number;
  readonly #has: ((text: string) => boolean) | undefined;
  readonly #make: () => Expression;
  #expression: Expression | undefined;
  #automaton: CodePointAutomaton | undefined;
  #complement: CodePointAutomaton | undefined;

  /** @param expression May be made when it is first asked for. */
  constructor(expression: Expression | (() => Expression), options: LanguageOptions = {}) {
    const { isPlain = false, isPart = false, texts, content, rules, spelled, has } = options;
    this.#make = typeof expression === "function" ? expression : () => expression;
    this.isPlain = isPlain;
    this.isPart = isPart;
    this.texts = texts;
    this.content = content;
    this.rules = rules;
    this.spelled = spelled;
    this.bound = options.bound ?? Number.POSITIVE_INFINITY;
    this.least = options.least ?? 0;
    this.most = options.most ?? Number.POSITIVE_INFINITY;
    this.#has = has;
  }

  /** Of the texts that strings mean, not of their spellings in JSON. */
  get expression(): Expression {
    this.#expression ??= this.#make();
    return this.#expression;
  }

  /** Whether its expression is all that is meant, so that it has an opposite. */
  get isWhole(): boolean {
    return !this.isPart && this.content === undefined;
  }

  /** Whether the text is one of its texts. */
  has(text: string): boolean {
    if (this.#has !== undefined) return this.#has(text);
    if (this.texts !== undefined) return this.texts.has(text);
    return Array.from(text).length <= this.bound && accepts(this.automaton, text);
  }

  /** @throws {GrammarError} when it needs too many states. */
  get automaton(): CodePointAutomaton {
    this.#automaton ??= automatonOf(this.expression);
    return this.#automaton;
  }

  /**
   * All other texts.
   *
   * @throws {GrammarError} when it needs too many states.
   */
  get complement(): CodePointAutomaton {
    if (!this.isWhole) {
      throw new GrammarError("Cannot enforce the opposite of a format: it is no regular language");
    }
    this.#complement ??= complement(this.automaton);
    return this.#complement;
  }
}

/** Is told of work before it is done, in states of automata, and may refuse it. */
export type Spend = (states: number) => void;

/** Texts that all automata accept; there is at least one. */
export function intersectAll(
  automata: readonly CodePointAutomaton[],
  spend: Spend = () => {},
): CodePointAutomaton {
  return automata.reduce((a, b) => {
    spend(Math.min(a.states.length * b.states.length, MAX_REGULAR_STATES));
    return intersection(a, b);
  });
}

/** @param path Of the keyword, for errors. */
export function languageOfTexts(texts: readonly string[], path: string): Language {
  const automaton = regular(automatonOfTexts(texts, path));
  return new Language(automaton, { texts: new Set(texts), isPlain: true });
}

interface Branch {
  accepting: boolean;
  readonly next: Map<string, Branch>;
}

/** @throws {GrammarError} for a text that UTF-8 cannot spell. */
export function automatonOfTexts(texts: Iterable<string>, path: string): CodePointAutomaton {
  const builder = new AutomatonBuilder();
  const root = branchesOf(texts, path);
  builder.add(root.accepting);
  addBranches(builder, root, true);
  return builder.build();
}

/**
 * All texts but these.
 *
 * @throws {GrammarError} for a text that UTF-8 cannot spell.
 */
export function automatonOfOtherTexts(texts: Iterable<string>, path: string): CodePointAutomaton {
  const builder = new AutomatonBuilder();
  const root = branchesOf(texts, path);
  builder.add(!root.accepting);
  const states = addBranches(builder, root, false);
  const rest = builder.add(true);
  const connect = (state: number, points: CodePoints): void => {
    for (const [first, last] of points) builder.connect(state, { first, last, target: rest });
  };
  connect(rest, ANY_CODE_POINT);
  states.forEach(({ next }, state) => {
    connect(
      state,
      next.size === 0 ? ANY_CODE_POINT : invert(codePointsOf([...next.keys()].join(""))),
    );
  });
  return builder.build();
}

function branchesOf(texts: Iterable<string>, path: string): Branch {
  const root: Branch = { accepting: false, next: new Map() };
  for (const text of texts) addText(root, text, path);
  return root;
}

/**
 * Branches from which on the same texts follow share a state: values that end alike take few.
 *
 * @returns A branch of each state.
 */
function addBranches(builder: AutomatonBuilder, root: Branch, accepts: boolean): Branch[] {
  const alike = firstsOfEqual(root);
  const branches = [root];
  const stateOf = new Map<Branch, number>([[root, 0]]);
  for (let state = 0; state < branches.length; state++) {
    for (const [character, branch] of branches[state]!.next) {
      const first = alike.get(branch)!;
      let target = stateOf.get(first);
      if (target === undefined) {
        target = builder.add(first.accepting === accepts);
        stateOf.set(first, target);
        branches.push(first);
      }
      const point = character.codePointAt(0)!;
      builder.connect(state, { first: point, last: point, target });
    }
  }
  return branches;
}

/** For each branch the one that stands for all with the same texts behind them. */
function firstsOfEqual(root: Branch): ReadonlyMap<Branch, Branch> {
  const all = [root];
  for (let i = 0; i < all.length; i++) for (const next of all[i]!.next.values()) all.push(next);
  const numbers = new Map<Branch, number>();
  const known = new Map<string, Branch>();
  const firsts = new Map<Branch, Branch>();
  for (const branch of all.toReversed()) {
    const behind = [...branch.next].map(([character, next]) => character + numbers.get(next));
    const key = `${branch.accepting} ${behind.sort().join("\n")}`;
    const first = known.get(key) ?? branch;
    if (first === branch) known.set(key, branch);
    firsts.set(branch, first);
    numbers.set(branch, first === branch ? numbers.size : numbers.get(first)!);
  }
  return firsts;
}

function addText(root: Branch, text: string, path: string): void {
  if (/\p{Surrogate}/u.test(text)) {
    const shown = JSON.stringify(text);
    throw new GrammarError(`Cannot spell ${shown}: it has half a surrogate pair`, { path });
  }
  let at = root;
  for (const character of text) {
    let next = at.next.get(character);
    if (next === undefined) {
      next = { accepting: false, next: new Map() };
      at.next.set(character, next);
    }
    at = next;
  }
  at.accepting = true;
}
