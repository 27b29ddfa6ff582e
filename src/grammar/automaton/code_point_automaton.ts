/**
 * Expression -> automaton over code points, for expressions that need no stack.
 *
 * Thompson's construction, then the removal of its silent edges. Repeats are written out here.
 *
 * @module
 */

import { spendEffort } from "../effort.ts";
import type { CodePointAutomaton, CodePointEdge, Expression } from "../expression.ts";
import { GrammarError } from "../grammar_error.ts";
import { AutomatonBuilder, MAX_REGULAR_STATES } from "./regular.ts";

/** Steps of the construction; every one makes at most a few nodes. */
const MAX_TASKS = 4 * MAX_REGULAR_STATES;
const TASK_EFFORT = 1;
/** Of each node that another one reaches silently. */
const REACH_EFFORT = 0.3;

interface Node {
  /** Nodes that are reached without a character. */
  readonly silent: number[];
  readonly edges: CodePointEdge[];
}

/** An expression that is to lead from one node to another. */
interface Task {
  readonly expression: Expression;
  readonly from: number;
  readonly to: number;
}

/**
 * The automaton of an expression without rules and single bytes.
 *
 * @throws {GrammarError} when it has them, or the automaton would be beyond the limits.
 */
export function automatonOf(expression: Expression): CodePointAutomaton {
  if (expression.kind === "regular" && expression.counted === undefined) {
    return expression.automaton;
  }
  return withoutSilentEdges(new Construction(expression).nodes);
}

const START = 0;
const END = 1;

class Construction {
  readonly nodes: Node[] = [];
  readonly #tasks: Task[] = [];

  constructor(expression: Expression) {
    this.#addNode();
    this.#addNode();
    this.#tasks.push({ expression, from: START, to: END });
    let done = 0;
    for (let task = this.#tasks.pop(); task !== undefined; task = this.#tasks.pop()) {
      if (++done > MAX_TASKS) refuseSize();
      spendEffort(TASK_EFFORT);
      this.#build(task);
    }
  }

  #addNode(): number {
    if (this.nodes.length >= MAX_TASKS) refuseSize();
    return this.nodes.push({ silent: [], edges: [] }) - 1;
  }

  #connect(from: number, to: number): void {
    this.nodes[from]!.silent.push(to);
  }

  #build({ expression, from, to }: Task): void {
    switch (expression.kind) {
      case "text":
        this.#buildText(expression.text, from, to);
        break;
      case "class":
        for (const [first, last] of expression.points) {
          this.nodes[from]!.edges.push({ first, last, target: to });
        }
        break;
      case "sequence":
        this.#buildSequence(expression.parts, from, to);
        break;
      case "choice":
        for (const option of expression.options) this.#tasks.push({ expression: option, from, to });
        break;
      case "repeat":
        this.#buildRepeat(expression, from, to);
        break;
      case "regular":
        if (expression.counted !== undefined) {
          throw new GrammarError("Cannot build the automaton: it has counted characters");
        }
        this.#buildRegular(expression.automaton, from, to);
        break;
      case "unordered":
        throw new GrammarError("Cannot build the automaton: it has parts in any order");
      case "bytes":
        throw new GrammarError("Cannot build the automaton: single bytes are not characters");
      case "rule":
        throw new GrammarError(
          `Cannot build the automaton: it refers to rule "${expression.name}"`,
        );
      default:
        expression satisfies never;
    }
  }

  #buildText(text: string, from: number, to: number): void {
    let at = from;
    for (const character of text) {
      const target = this.#addNode();
      const point = character.codePointAt(0)!;
      this.nodes[at]!.edges.push({ first: point, last: point, target });
      at = target;
    }
    this.#connect(at, to);
  }

  #buildSequence(parts: readonly Expression[], from: number, to: number): void {
    let at = from;
    for (const part of parts) {
      const next = this.#addNode();
      this.#tasks.push({ expression: part, from: at, to: next });
      at = next;
    }
    this.#connect(at, to);
  }

  #buildRepeat(
    { body, min, max }: { readonly body: Expression; readonly min: number; readonly max: number },
    from: number,
    to: number,
  ): void {
    const copies = max === Number.POSITIVE_INFINITY ? min : max;
    if (copies > MAX_TASKS) refuseSize();
    let at = from;
    for (let i = 0; i < copies; i++) {
      if (i >= min) this.#connect(at, to);
      const next = this.#addNode();
      this.#tasks.push({ expression: body, from: at, to: next });
      at = next;
    }
    if (max === Number.POSITIVE_INFINITY) {
      const loop = this.#addNode();
      this.#connect(at, loop);
      this.#tasks.push({ expression: body, from: loop, to: loop });
      at = loop;
    }
    this.#connect(at, to);
  }

  #buildRegular({ states }: CodePointAutomaton, from: number, to: number): void {
    const numbers = states.map(() => this.#addNode());
    this.#connect(from, numbers[0]!);
    states.forEach(({ accepting, edges }, state) => {
      const number = numbers[state]!;
      if (accepting) this.#connect(number, to);
      for (const { first, last, target } of edges) {
        this.nodes[number]!.edges.push({ first, last, target: numbers[target]! });
      }
    });
  }
}

function refuseSize(): never {
  throw new GrammarError(
    `Cannot build the automaton: it needs more than ${MAX_REGULAR_STATES} states`,
  );
}

const NO_STATE = -1;

/** States are the start and what edges lead to. */
function withoutSilentEdges(nodes: readonly Node[]): CodePointAutomaton {
  const builder = new AutomatonBuilder();
  const numbers = new Int32Array(nodes.length).fill(NO_STATE);
  const states: number[] = [];
  const closures: (readonly number[])[] = [];
  const number = (node: number): number => {
    let known = numbers[node]!;
    if (known === NO_STATE) {
      const closure = reachSilently(nodes, node);
      known = builder.add(closure.includes(END));
      numbers[node] = known;
      states.push(node);
      closures.push(closure);
    }
    return known;
  };
  number(START);
  for (let i = 0; i < states.length; i++) {
    for (const node of closures[i]!) {
      for (const { first, last, target } of nodes[node]!.edges) {
        builder.connect(i, { first, last, target: number(target) });
      }
    }
  }
  return builder.build();
}

function reachSilently(nodes: readonly Node[], from: number): number[] {
  if (nodes[from]!.silent.length === 0) return [from];
  const reached = new Set([from]);
  for (const node of reached) for (const target of nodes[node]!.silent) reached.add(target);
  spendEffort(REACH_EFFORT * reached.size);
  return [...reached];
}
