/**
 * Grammar -> automaton over bytes.
 *
 * Each rule that the root needs is built once. A repeat whose copies are few is written out, any
 * other becomes a counted repeat. A repeat must not go round on the empty text, so where its body
 * matches that, the body's other texts are built instead, and no round is needed any more. The parts
 * of a list in any order are built once each.
 *
 * @module
 */

import { spendEffort } from "../effort.ts";
import type {
  ChoiceExpression,
  CodePointAutomaton,
  Expression,
  Grammar,
  RegularExpression,
  RepeatExpression,
  SequenceExpression,
  UnorderedExpression,
} from "../expression.ts";
import { checkGrammar, type GrammarFacts } from "../grammar_check.ts";
import { GrammarError } from "../grammar_error.ts";
import type { ByteEdge, ListRole } from "./automaton_node.ts";
import { append, BuiltNode, characterRoles, mostNeeded, pointsByTarget } from "./built_node.ts";
import { type ByteAutomaton, byteClasses, type CountedRepeat } from "./byte_automaton.ts";
import { type CodePoints, rangesKey } from "./code_points.ts";
import { findDepthNeeds } from "./depth_needs.ts";
import { PackedNodes } from "./packed_nodes.ts";
import { PlainNodes } from "./plain_text.ts";
import type { UnorderedList } from "./unordered_list.ts";
import { type Utf8Node, utf8Graph } from "./utf8.ts";

export interface CompileLimits {
  /** Nodes of the automaton. Default 250,000. */
  readonly maxNodes?: number | undefined;
}

export const MAX_NODES = 250_000;
const NODE_EFFORT = 1.6;
const EDGE_EFFORT = 0.4;
/** An expression object that stands in many places may be built often without a node of its own. */
const TASKS_PER_NODE = 4;
/** A repeat of at most so many nodes is written out. */
const WRITTEN_OUT = 64;
/** A regular language of at least so many states is shared by the places where it stands. */
const SHARED_STATES = 64;
/** In place of a node. */
const NOT_BUILT = -1;

/**
 * Compiles a grammar.
 *
 * @throws {GrammarError} when a rule is missing or begins with itself, when no text satisfies the
 * grammar, or when it is beyond the limits.
 */
export function compileAutomaton(grammar: Grammar, limits: CompileLimits = {}): ByteAutomaton {
  const compilation = new Compilation(grammar, limits.maxNodes ?? MAX_NODES);
  const { nodes, repeats, lists, start, plain } = compilation;
  const { depthNeeds, listNeeds } = findDepthNeeds(nodes, repeats, lists);
  if (depthNeeds[start] === Number.POSITIVE_INFINITY) {
    throw new GrammarError("Cannot use the grammar: no text satisfies it");
  }
  const classes = byteClasses(nodes);
  return {
    nodes: new PackedNodes(nodes),
    start,
    repeats,
    lists,
    depthNeeds,
    listNeeds,
    plain: plain.of(nodes.length),
    ...classes,
  };
}

/** An expression that is to lead from one node to another. */
interface Task {
  readonly expression: Expression;
  readonly from: number;
  readonly to: number;
  /** Whether the empty text is left out. */
  readonly solid: boolean;
}

type Ends = Omit<Task, "expression">;

class Compilation {
  readonly nodes: BuiltNode[] = [];
  readonly repeats: CountedRepeat[] = [];
  readonly lists: UnorderedList[] = [];
  readonly start: number;
  readonly plain = new PlainNodes();
  readonly #grammar: Grammar;
  readonly #maxNodes: number;
  readonly #facts: GrammarFacts;
  readonly #tasks: Task[] = [];
  /** First nodes of rules, whole and without the empty text. */
  readonly #rules = new Map<string, number>();
  readonly #solidRules = new Map<string, number>();
  readonly #graphs = new Map<string, Utf8Node>();
  /** First nodes of regular languages that stand in several places. */
  readonly #regulars = new Map<CodePointAutomaton, number>();

  constructor(grammar: Grammar, maxNodes: number) {
    this.#grammar = grammar;
    this.#maxNodes = maxNodes;
    this.#facts = checkGrammar(grammar);
    this.start = this.#ruleStart(grammar.root, false);
    let built = 0;
    for (let task = this.#tasks.pop(); task !== undefined; task = this.#tasks.pop()) {
      if (++built > TASKS_PER_NODE * maxNodes) this.#refuseSize();
      this.#build(task);
    }
  }

  #refuseSize(): never {
    throw new GrammarError(
      `Cannot compile the grammar: it needs more than ${this.#maxNodes} nodes`,
    );
  }

  #addNode(): number {
    if (this.nodes.length === this.#maxNodes) this.#refuseSize();
    spendEffort(NODE_EFFORT);
    return this.nodes.push(new BuiltNode()) - 1;
  }

  #addEnd(): number {
    const end = this.#addNode();
    this.nodes[end]!.returns = true;
    return end;
  }

  #ruleStart(name: string, solid: boolean): number {
    const rules = solid ? this.#solidRules : this.#rules;
    let start = rules.get(name);
    if (start === undefined) {
      start = this.#addNode();
      rules.set(name, start);
      const expression = this.#grammar.rules.get(name)!;
      this.#tasks.push({ expression, from: start, to: this.#addEnd(), solid });
    }
    return start;
  }

  #build({ expression, from, to, solid: wanted }: Task): void {
    const solid = wanted && this.#facts.isNullable(expression);
    switch (expression.kind) {
      case "text":
        if (!solid) this.#buildText(expression.text, { from, to, shared: new Map() });
        break;
      case "class":
        this.#buildClass(expression.points, { from, to, tails: new Map() });
        break;
      case "bytes":
        for (const [first, last] of expression.ranges)
          this.#connect(from, { first, last, target: to });
        break;
      case "sequence":
        this.#buildSequence(expression, { from, to, solid });
        break;
      case "choice":
        this.#buildChoice(expression, { from, to, solid: wanted });
        break;
      case "repeat":
        this.#buildRepeat(expression, { from, to, solid });
        break;
      case "unordered":
        this.#buildUnordered(expression, from, to);
        break;
      case "rule": {
        const start = this.#ruleStart(expression.name, solid);
        const node = this.nodes[from]!;
        node.calls = append(node.calls, { start, back: to });
        break;
      }
      case "regular":
        if (expression.counted === undefined) this.#addRegular(expression, { from, to, solid });
        else this.#buildCounted(expression, { from, to, solid });
        break;
      default:
        expression satisfies never;
    }
  }

  #connect(from: number, edge: ByteEdge): void {
    spendEffort(EDGE_EFFORT);
    const node = this.nodes[from]!;
    node.edges = append(node.edges, edge);
  }

  #pass(from: number, to: number): void {
    const node = this.nodes[from]!;
    node.silent = append(node.silent, to);
  }

  /** Texts with a beginning in common share its nodes: there may be thousands of them. */
  #buildChoice({ options }: ChoiceExpression, { from, to, solid }: Ends): void {
    const shared = new Map<number, number>();
    for (const option of options) {
      if (option.kind === "text" && option.text !== "") {
        this.#buildText(option.text, { from, to, shared });
      } else {
        this.#tasks.push({ expression: option, from, to, solid });
      }
    }
  }

  /** @param shared Nodes inside texts from the same node, by the node before x 256 + byte. */
  #buildText(
    text: string,
    { from, to, shared }: { from: number; to: number; shared: Map<number, number> },
  ): void {
    const bytes = new TextEncoder().encode(text);
    let at = from;
    for (const byte of bytes.subarray(0, -1)) {
      const key = at * 256 + byte;
      let target = shared.get(key);
      if (target === undefined) {
        target = this.#addNode();
        shared.set(key, target);
        this.#connect(at, { first: byte, last: byte, target });
      }
      at = target;
    }
    const last = bytes.at(-1);
    if (last === undefined) this.#pass(at, to);
    else this.#connect(at, { first: last, last, target: to });
  }

  /** @param tails Nodes inside characters that lead to the same place, for classes to share. */
  #buildClass(
    points: CodePoints,
    { from, to, tails }: { from: number; to: number; tails: Map<Utf8Node, number> },
  ): void {
    const key = rangesKey(0, points);
    const graph = this.#graphs.get(key) ?? utf8Graph(points);
    this.#graphs.set(key, graph);
    const waiting: (readonly [Utf8Node, number])[] = [[graph, from]];
    for (let entry = waiting.pop(); entry !== undefined; entry = waiting.pop()) {
      const [{ edges }, node] = entry;
      for (const { first, last, next } of edges) {
        let target = next === undefined ? to : tails.get(next);
        if (target === undefined) {
          target = this.#addNode();
          tails.set(next!, target);
          waiting.push([next!, target]);
        }
        this.#connect(node, { first, last, target });
      }
    }
  }

  /**
   * Without the empty text two rows of nodes are needed: one for as long as every part so far was
   * empty, which all can be then, and one for afterwards.
   */
  #buildSequence({ parts }: SequenceExpression, { from, to, solid }: Ends): void {
    let at = from;
    let empty = from;
    parts.forEach((expression, i) => {
      const isLast = i === parts.length - 1;
      const next = isLast ? to : this.#addNode();
      if (!solid || i > 0) this.#tasks.push({ expression, from: at, to: next, solid: false });
      if (solid) {
        this.#tasks.push({ expression, from: empty, to: next, solid: true });
        const stillEmpty = this.#addNode();
        this.#pass(empty, stillEmpty);
        empty = stillEmpty;
      }
      at = next;
    });
    if (parts.length === 0 && !solid) this.#pass(from, to);
  }

  #buildRepeat(repeat: RepeatExpression, { from, to, solid }: Ends): void {
    const { body, max } = repeat;
    const nullable = this.#facts.isNullable(body);
    const min = solid ? 1 : nullable ? 0 : repeat.min;
    if (max === 0) {
      if (!solid) this.#pass(from, to);
      return;
    }
    const bounded = max !== Number.POSITIVE_INFINITY;
    const copies = bounded ? max : min;
    if (copies <= 1 || copies * this.#facts.sizeOf(body) <= WRITTEN_OUT) {
      this.#writeOut({ body, min, max }, { from, to, solid: nullable });
      return;
    }
    const start = this.#addNode();
    this.#tasks.push({ expression: body, from: start, to: this.#addEnd(), solid: nullable });
    const node = this.nodes[from]!;
    node.repeats = append(node.repeats, this.repeats.length);
    this.repeats.push({ body: start, exit: to, min, max });
  }

  #writeOut(
    { body, min, max }: { readonly body: Expression; readonly min: number; readonly max: number },
    { from, to, solid }: Ends,
  ): void {
    const bounded = max !== Number.POSITIVE_INFINITY;
    let at = from;
    for (let i = 0; i < (bounded ? max : min); i++) {
      if (i >= min) this.#pass(at, to);
      const next = this.#addNode();
      this.#tasks.push({ expression: body, from: at, to: next, solid });
      at = next;
    }
    if (!bounded) {
      const loop = this.#addNode();
      this.#pass(at, loop);
      this.#tasks.push({ expression: body, from: loop, to: loop, solid });
      at = loop;
    }
    this.#pass(at, to);
  }

  #buildUnordered(list: UnorderedExpression, from: number, to: number): void {
    const { min, max } = list;
    const build = (expression: Expression, role: ListRole): number => {
      const [start, end] = [this.#addNode(), this.#addNode()];
      this.nodes[end]!.roles = [role];
      this.#tasks.push({ expression, from: start, to: end, solid: false });
      return start;
    };
    const parts = list.parts.map(({ body, isRequired, isRepeatable }, part) => {
      const start = build(body, { kind: "part ends", part });
      return { body: start, isRequired, isRepeatable };
    });
    const separator = build(list.separator, { kind: "part begins" });
    const node = this.nodes[from]!;
    node.roles = append(node.roles, { kind: "list begins", list: this.lists.length });
    this.lists.push({ parts, separator, exit: to, min, max });
  }

  /** One that stands in several places is built for the first of them, and once for all others. */
  #addRegular({ automaton }: RegularExpression, { from, to, solid }: Ends): void {
    let shared = this.#regulars.get(automaton);
    if (solid || shared === undefined || automaton.states.length < SHARED_STATES) {
      if (!solid) this.#regulars.set(automaton, NOT_BUILT);
      this.#buildRegular(automaton, { from, to, solid });
      return;
    }
    if (shared === NOT_BUILT) {
      shared = this.#addNode();
      this.#regulars.set(automaton, shared);
      this.#buildRegular(automaton, { from: shared, to: this.#addEnd(), solid });
    }
    const node = this.nodes[from]!;
    node.calls = append(node.calls, { start: shared, back: to });
  }

  /** The language as the body of a repeat, whose rounds its characters are. */
  #buildCounted({ automaton, counted }: RegularExpression, { from, to, solid }: Ends): void {
    const body = this.#addNode();
    const node = this.nodes[from]!;
    node.repeats = append(node.repeats, this.repeats.length);
    const min = solid ? Math.max(counted!.min, 1) : counted!.min;
    const bounds = { min, max: counted!.max, mostNeeded: mostNeeded(automaton) };
    this.repeats.push({ body, exit: to, ...bounds });
    const end = this.#addEnd();
    this.#buildRegular(automaton, { from: body, to: end, solid: false, isCounted: true });
  }

  #buildRegular(automaton: CodePointAutomaton, ends: Ends & { readonly isCounted?: true }): void {
    const { states } = automaton;
    const { from, to, solid } = ends;
    const numbers = states.map(() => this.#addNode());
    this.plain.add(automaton, numbers, ends);
    const tailsOf = new Map<number, Map<Utf8Node, number>>();
    const buildEdges = (state: number, node: number): void => {
      const { edges } = states[state]!;
      const begins = characterRoles(edges, numbers);
      if (begins.length > 0) {
        this.nodes[node]!.roles = begins;
        return;
      }
      if (edges.every(({ last }) => last < 0x80)) {
        for (const { first, last, target } of edges) {
          this.#connect(node, { first, last, target: numbers[target]! });
        }
        return;
      }
      for (const [target, points] of pointsByTarget(edges)) {
        const tails = tailsOf.get(target) ?? new Map<Utf8Node, number>();
        tailsOf.set(target, tails);
        this.#buildClass(points, { from: node, to: numbers[target]!, tails });
      }
    };
    states.forEach(({ accepting }, state) => {
      if (accepting) this.#pass(numbers[state]!, to);
      buildEdges(state, numbers[state]!);
    });
    // Only its first visit to the start has read nothing.
    if (solid) buildEdges(0, from);
    else this.#pass(from, numbers[0]!);
  }
}
