/**
 * Lists of items or members as rules: each state of a small machine is one.
 *
 * What stands next in an array or object depends on what came before it: which key, how many, what
 * is still missing. A rule for each such state, ending with the rule of the next state, keeps the
 * grammar in proportion to the number of states, whatever the number of ways through them.
 *
 * @module
 */

import { spendEffort } from "../../effort.ts";
import { choice, type Expression, rule, sequence } from "../../expression.ts";
import { GrammarError } from "../../grammar_error.ts";
import { beforeClose, beforeItem } from "./json_grammar.ts";

export interface Move<State> {
  /** Item or member; nothing for a move that writes none. */
  readonly item?: Expression | undefined;
  readonly next: State;
}

export interface Machine<State> {
  readonly start: State;
  /** The same for equal states. */
  readonly key: (state: State) => string;
  /** Whether anything was written before, so that a comma comes first. */
  readonly started: (state: State) => boolean;
  /** Whether the list may end here. */
  readonly accepts: (state: State) => boolean;
  readonly moves: (state: State) => readonly Move<State>[];
}

const MAX_STATES = 20_000;
/** Of each state and each way on from it. */
const MOVE_EFFORT = 5;
const MAX_MOVES = 60_000;

/**
 * Adds a rule for each state.
 *
 * @param name What the names of the rules begin with.
 * @returns The list, with the white space around its items.
 * @throws {GrammarError} when there are too many states.
 */
export function machineExpression<State>(
  machine: Machine<State>,
  { rules, name, path }: { rules: Map<string, Expression>; name: string; path: string },
): Expression {
  const ruleOf = new Map<string, Expression>();
  const waiting: { readonly state: State; readonly name: string }[] = [];
  const refer = (state: State): Expression => {
    const key = machine.key(state);
    let known = ruleOf.get(key);
    if (known === undefined) {
      if (ruleOf.size === MAX_STATES) refuse(`${MAX_STATES} states`);
      const ruleName = `${name} ${ruleOf.size}`;
      known = rule(ruleName);
      ruleOf.set(key, known);
      waiting.push({ state, name: ruleName });
    }
    return known;
  };
  const refuse = (limit: string): never => {
    throw new GrammarError(`Cannot enforce the schema: it takes more than ${limit}`, { path });
  };
  let count = 0;
  const start = refer(machine.start);
  for (let entry = waiting.pop(); entry !== undefined; entry = waiting.pop()) {
    const { state } = entry;
    const started = machine.started(state);
    const moves = machine.moves(state);
    count += moves.length;
    spendEffort(MOVE_EFFORT * (1 + moves.length));
    if (count > MAX_MOVES) refuse(`${MAX_MOVES} moves between states`);
    const options = moves.map(({ item, next }) =>
      item === undefined ? refer(next) : sequence([beforeItem(started), item, refer(next)]),
    );
    const ends = machine.accepts(state) ? [beforeClose(started)] : [];
    rules.set(entry.name, choice([...options, ...ends]));
  }
  return start;
}
