/**
 * How many stack entries each node of an automaton needs to get out of its rule, and which never do.
 *
 * @module
 */

import type { AutomatonNode, Call } from "./automaton_node.ts";
import { type CountedRepeat, onlyReturns } from "./byte_automaton.ts";
import type { UnorderedList } from "./unordered_list.ts";

type UnorderedPart = UnorderedList["parts"][number];

/** A node that may be left by way of another one. */
interface Use {
  readonly user: number;
  /** Set when the way leads through a rule or round and on from there: both must be passable. */
  readonly through?: Call;
  /** Set when it leads through the parts of a list, which must be enough. */
  readonly list?: ListNeed;
  /** The part of the list that the node is; undefined for what stands around its parts. */
  readonly part?: UnorderedPart;
}

/** What is known so far of the parts that a list takes. */
class ListNeed {
  readonly index: number;
  readonly #list: UnorderedList;
  #missing: number;
  /** Parts that it needs besides the required ones. */
  #others: number;

  constructor(list: UnorderedList, index: number) {
    this.index = index;
    this.#list = list;
    this.#missing = list.parts.filter((part) => part.isRequired).length;
    this.#others = Math.max(0, Math.max(list.min, 1) - this.#missing);
  }

  /** The next of its parts to become passable. */
  pass(part: UnorderedPart): void {
    if (part.isRequired) this.#missing -= 1;
    else this.#others = part.isRepeatable ? 0 : this.#others - 1;
  }

  isEnough(needs: Float64Array): boolean {
    const { exit, separator } = this.#list;
    const around = Math.max(needs[exit]!, needs[separator]!);
    return this.#missing === 0 && this.#others <= 0 && around !== Number.POSITIVE_INFINITY;
  }
}

/**
 * The least number of stack entries that each node needs to get out of its rule or round, and each
 * list from where it begins.
 *
 * Nodes are settled in the order of their needs (Knuth, "A generalization of Dijkstra's algorithm",
 * 1977). A node that is never settled is a dead end: it stays at Infinity.
 */
export function findDepthNeeds(
  nodes: readonly AutomatonNode[],
  repeats: readonly CountedRepeat[],
  lists: readonly UnorderedList[],
): { readonly depthNeeds: Float64Array; readonly listNeeds: Float64Array } {
  const usesOf = listUses(nodes, { repeats, lists });
  const needs = new Float64Array(nodes.length).fill(Number.POSITIVE_INFINITY);
  const listNeeds = new Float64Array(lists.length).fill(Number.POSITIVE_INFINITY);
  const isEnd = ({ returns, roles }: AutomatonNode) =>
    returns || roles.some(({ kind }) => kind === "part begins" || kind === "part ends");
  let level: number[] = nodes.flatMap((node, i) => (isEnd(node) ? [i] : []));
  for (let need = 0; level.length > 0; need++) {
    const next: number[] = [];
    const settle = (user: number, needed: number): void => {
      if (needs[user] !== Number.POSITIVE_INFINITY) return;
      if (needed === need) level.push(user);
      else if (needed === need + 1) next.push(user);
    };
    for (let node = level.pop(); node !== undefined; node = level.pop()) {
      if (needs[node] !== Number.POSITIVE_INFINITY) continue;
      needs[node] = need;
      for (const { user, through, list, part } of usesOf[node] ?? []) {
        if (list !== undefined) {
          const { index } = list;
          if (part !== undefined) list.pass(part);
          if (!list.isEnough(needs)) continue;
          listNeeds[index] = Math.min(listNeeds[index]!, need + 1);
          settle(user, need + 1);
        } else if (through === undefined) {
          settle(user, need);
        } else {
          settle(user, Math.max(needs[through.start]! + 1, needs[through.back]!));
        }
      }
    }
    level = next;
  }
  return { depthNeeds: needs, listNeeds };
}

/** For each node, who can be left by way of it. */
function listUses(
  nodes: readonly AutomatonNode[],
  {
    repeats,
    lists,
  }: { readonly repeats: readonly CountedRepeat[]; readonly lists: readonly UnorderedList[] },
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
      if (onlyReturns((other) => nodes[other]!, call.back)) add(call.start, use);
      else addThrough(user, call);
    }
    for (const index of node.repeats) {
      const { body, exit, min, mostNeeded } = repeats[index]!;
      if (min === 0 && mostNeeded === undefined) add(exit, use);
      addThrough(user, { start: body, back: exit });
    }
    for (const role of node.roles) {
      if (role.kind === "character begins") add(role.target, use);
      if (role.kind !== "list begins") continue;
      const { parts, separator, exit } = lists[role.list]!;
      const list = new ListNeed(lists[role.list]!, role.list);
      for (const part of parts) add(part.body, { user, list, part });
      for (const at of [separator, exit]) add(at, { user, list });
    }
  });
  return usesOf;
}
