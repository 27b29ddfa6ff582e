/**
 * What a grammar is compiled into: an automaton over bytes whose edges may call rules.
 *
 * From a node it goes on by a byte, silently, into a rule (with the node to come back to put on a
 * stack), into a counted repeat, or back out of one of these two. A counted repeat keeps on the
 * stack how many rounds it still must and may make, so that its body exists once; every round takes
 * at least one byte.
 *
 * @module
 */

export interface ByteAutomaton {
  readonly nodes: readonly AutomatonNode[];
  readonly start: number;
  readonly repeats: readonly CountedRepeat[];
  /** Bytes that no edge tells apart have the same class, a number below `classes.length`. */
  readonly classOf: Uint8Array;
  /** One byte of each class. */
  readonly classes: Uint8Array;
  /** For each node the least number of further stack entries to get out; Infinity is a dead end. */
  readonly depthNeeds: Float64Array;
}

export interface AutomatonNode {
  readonly edges: readonly ByteEdge[];
  /** Nodes that are reached without a byte. */
  readonly silent: readonly number[];
  readonly calls: readonly Call[];
  /** Indices of counted repeats that may begin here. */
  readonly repeats: readonly number[];
  /** Whether the rule or the round ends here. */
  readonly returns: boolean;
}

export interface ByteEdge {
  readonly first: number;
  readonly last: number;
  readonly target: number;
}

export interface Call {
  /** First node of the rule. */
  readonly start: number;
  /** Where to go on behind it. */
  readonly back: number;
}

export interface CountedRepeat {
  /** First node of a round. */
  readonly body: number;
  /** Where to go on behind the last round. */
  readonly exit: number;
  readonly min: number;
  /** Infinity for no bound. */
  readonly max: number;
}

/** Groups the bytes that all edges treat alike. */
export function byteClasses(
  nodes: readonly AutomatonNode[],
): Pick<ByteAutomaton, "classOf" | "classes"> {
  const begins = new Uint8Array(257);
  for (const { edges } of nodes) {
    for (const { first, last } of edges) {
      begins[first] = 1;
      begins[last + 1] = 1;
    }
  }
  const classOf = new Uint8Array(256);
  const classes = [0];
  for (let byte = 1; byte < 256; byte++) {
    if (begins[byte] === 1) classes.push(byte);
    classOf[byte] = classes.length - 1;
  }
  return { classOf, classes: Uint8Array.from(classes) };
}

/** Silent edges that are followed to see that a node only returns. */
const MAX_SILENT = 16;

/** Whether all there is to do at a node is to return: a call with it behind needs no stack entry. */
export function onlyReturns(nodes: readonly AutomatonNode[], node: number): boolean {
  let returns = false;
  const reached = new Set([node]);
  for (const other of reached) {
    const { edges, silent, calls, repeats, returns: ends } = nodes[other]!;
    if (edges.length + calls.length + repeats.length > 0 || reached.size > MAX_SILENT) return false;
    for (const target of silent) reached.add(target);
    returns ||= ends;
  }
  return returns;
}

/** A node that may be left by way of another one. */
interface Use {
  readonly user: number;
  /** Set when the way leads through a rule or round and on from there: both must be passable. */
  readonly through?: Call;
}

/**
 * The least number of stack entries that each node needs to get out of its rule or round.
 *
 * Nodes are settled in the order of their needs (Knuth, "A generalization of Dijkstra's algorithm",
 * 1977). A node that is never settled is a dead end: it stays at Infinity.
 */
export function findDepthNeeds(
  nodes: readonly AutomatonNode[],
  repeats: readonly CountedRepeat[],
): Float64Array {
  const usesOf = listUses(nodes, repeats);
  const needs = new Float64Array(nodes.length).fill(Number.POSITIVE_INFINITY);
  let level: number[] = nodes.flatMap(({ returns }, node) => (returns ? [node] : []));
  for (let need = 0; level.length > 0; need++) {
    const next: number[] = [];
    for (let node = level.pop(); node !== undefined; node = level.pop()) {
      if (needs[node] !== Number.POSITIVE_INFINITY) continue;
      needs[node] = need;
      for (const { user, through } of usesOf[node] ?? []) {
        if (needs[user] !== Number.POSITIVE_INFINITY) continue;
        const needed =
          through === undefined ? need : Math.max(needs[through.start]! + 1, needs[through.back]!);
        if (needed === need) level.push(user);
        else if (needed === need + 1) next.push(user);
      }
    }
    level = next;
  }
  return needs;
}

/** For each node, who can be left by way of it. */
function listUses(
  nodes: readonly AutomatonNode[],
  repeats: readonly CountedRepeat[],
): readonly (readonly Use[] | undefined)[] {
  const usesOf: Use[][] = [];
  const add = (node: number, use: Use): void => {
    const known = usesOf[node];
    if (known === undefined) usesOf[node] = [use];
    else known.push(use);
  };
  const addThrough = (user: number, through: Call): void => {
    add(through.start, { user, through });
    add(through.back, { user, through });
  };
  nodes.forEach((node, user) => {
    const use: Use = { user };
    for (const { target } of node.edges) add(target, use);
    for (const target of node.silent) add(target, use);
    for (const call of node.calls) {
      if (onlyReturns(nodes, call.back)) add(call.start, use);
      else addThrough(user, call);
    }
    for (const index of node.repeats) {
      const { body, exit, min } = repeats[index]!;
      if (min === 0) add(exit, use);
      addThrough(user, { start: body, back: exit });
    }
  });
  return usesOf;
}
