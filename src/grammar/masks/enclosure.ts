/**
 * Places of a grammar that texts of some bytes do not lead out of, as inside of a string those without a
 * quote.
 *
 * What is found is sure, but not all there is.
 *
 * @module
 */
import type { Configuration, Configurations } from "../automaton/configurations.ts";
import type { Frame, Thread } from "../automaton/frames.ts";
import { TAKES_CONTROLS } from "../automaton/plain_text.ts";

export interface EnclosureBytes {
  /** Whether a text may have some of the bytes from first to last. */
  readonly passes: (first: number, last: number) => boolean;
  /** Whether one of them is a way out. */
  readonly ends: (first: number, last: number) => boolean;
}

/** Nodes that are looked at to see that there is no way out. */
const MOST_NODES = 1500;
const NONE = -1;
/** What is known of a node. */
const UNKNOWN = 0;
const NO = 1;
const YES = 2;

export class Enclosure {
  readonly #configurations: Configurations;
  readonly #bytes: EnclosureBytes;
  /** Whether control characters are a way out. */
  readonly #endsByControls: boolean;
  /** By node, whether a text may lead to the end of its rule, round or list; made when one is asked for. */
  #leaving: Uint8Array | undefined;
  /** By node, whether a way out may come before that. */
  #meeting: Uint8Array | undefined;
  /** Of the node that is looked at. */
  readonly #edges: number[] = [];

  constructor(configurations: Configurations, bytes: EnclosureBytes) {
    this.#configurations = configurations;
    this.#bytes = bytes;
    this.#endsByControls = bytes.ends(0, 0);
  }

  /** Whether it is sure that no text leads from a configuration to where the whole text may end, or out. */
  has({ threads, accepting }: Configuration): boolean {
    return !accepting && !threads.some((thread) => this.#leadsOut(thread));
  }

  #leadsOut({ node, frame }: Thread): boolean {
    const { lists, repeats } = this.#configurations.automaton;
    let at = node;
    for (let around: Frame | undefined = frame; around !== undefined; around = around.parent) {
      if (this.#mayMeet(at)) return true;
      if (!this.#mayLeave(at)) return false;
      // A further round or part ends where this one does.
      const list = lists[around.list];
      const repeat = repeats[around.repeat];
      const further = list?.separator ?? repeat?.body;
      if (further !== undefined && this.#mayMeet(further)) return true;
      at = list?.exit ?? repeat?.exit ?? around.back;
    }
    return true;
  }

  /** Rules, rounds and lists that begin on the way are taken to be over without any text. */
  #mayLeave(start: number): boolean {
    this.#leaving ??= new Uint8Array(this.#configurations.automaton.nodes.length);
    return this.#search(start, this.#leaving, (node, reached) => this.#leaves(node, reached));
  }

  /** The same, and all that is inside of them is looked at too. */
  #mayMeet(start: number): boolean {
    this.#meeting ??= new Uint8Array(this.#configurations.automaton.nodes.length);
    return this.#search(start, this.#meeting, (node, reached) => this.#meets(node, reached));
  }

  #search(
    start: number,
    known: Uint8Array,
    look: (node: number, reached: Set<number>) => boolean,
  ): boolean {
    if (known[start] !== UNKNOWN) return known[start] === YES;
    const reached = new Set([start]);
    /** In the order of `reached`: each node, and the index of the one that led to it. */
    const nodes: number[] = [];
    const from = [NONE];
    for (const node of reached) {
      const other = known[node];
      const index = nodes.push(node) - 1;
      if (other === NO) continue;
      if (other === YES || reached.size > MOST_NODES || look(node, reached)) {
        for (let at = index; at !== NONE; at = from[at]!) known[nodes[at]!] = YES;
        return true;
      }
      while (from.length < reached.size) from.push(index);
    }
    for (const node of reached) known[node] = NO;
    return false;
  }

  /** Adds what a node leads to in its rule, round or list, and says whether that may end there. */
  #leaves(node: number, reached: Set<number>): boolean {
    const { plain, lists, repeats } = this.#configurations.automaton;
    if (plain.lengths[node]! > 0) {
      reached.add(plain.exits[node]! >>> 2);
      return false;
    }
    const view = this.#configurations.view(node);
    this.#addTargets(view.edges, reached);
    for (const target of view.silent) reached.add(target);
    for (const { start, back, isLast } of view.calls) reached.add(isLast ? start : back);
    for (const index of view.repeats) reached.add(repeats[index]!.exit);
    let isEnd = view.returns;
    for (const role of view.roles) {
      if (role.kind === "character begins") reached.add(role.target);
      else if (role.kind === "list begins") reached.add(lists[role.list]!.exit);
      else isEnd = true;
    }
    return isEnd;
  }

  /** Adds all that a node leads to but by its end, and says whether a way out is there. */
  #meets(node: number, reached: Set<number>): boolean {
    const { plain, lists, repeats } = this.#configurations.automaton;
    if (plain.lengths[node]! > 0) {
      reached.add(plain.exits[node]! >>> 2);
      return this.#endsByControls && (plain.exits[node]! & TAKES_CONTROLS) !== 0;
    }
    const { nodes } = this.#configurations.automaton;
    this.#edges.length = 0;
    nodes.addEdges(node, this.#edges);
    const { ends } = this.#bytes;
    for (let i = 0; i < this.#edges.length; i += 2) {
      if (ends(this.#edges[i]! >>> 8, this.#edges[i]! & 0xff)) return true;
    }
    this.#addTargets(this.#edges, reached);
    if (nodes.isPlain(node)) return false;
    const besides = nodes.besidesEdges(node);
    for (const target of besides.silent) reached.add(target);
    for (const { start, back } of besides.calls) reached.add(start).add(back);
    for (const index of besides.repeats) {
      reached.add(repeats[index]!.body).add(repeats[index]!.exit);
    }
    for (const role of besides.roles) {
      if (role.kind === "character begins") reached.add(role.target);
      if (role.kind !== "list begins") continue;
      const { parts, separator, exit } = lists[role.list]!;
      for (const { body } of parts) reached.add(body);
      reached.add(separator).add(exit);
    }
    return false;
  }

  #addTargets(edges: ArrayLike<number>, reached: Set<number>): void {
    const { passes } = this.#bytes;
    for (let i = 0; i < edges.length; i += 2) {
      if (passes(edges[i]! >>> 8, edges[i]! & 0xff)) reached.add(edges[i + 1]!);
    }
  }
}
