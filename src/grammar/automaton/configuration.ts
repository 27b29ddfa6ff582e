/**
 * A place in a grammar: all ways to read the text so far.
 *
 * @module
 */
import type { ByteGroups } from "./byte_groups.ts";
import type { Thread } from "./frames.ts";

export class Configuration {
  /** Rising ids. */
  readonly threads: readonly Thread[];
  /** Whether the text may end here. */
  readonly accepting: boolean;
  /** Which bytes lead alike; undefined where no step has looked yet. */
  groups: ByteGroups | undefined;
  /** By group of bytes; null where no text goes on, undefined where no step has looked yet. */
  readonly nexts: (Configuration | null | undefined)[] = [];
  /** Deepest stack, with what it needs to get out, that was looked at on the way here. */
  reach: number;
  /** Another one whose threads have the same hash. */
  alike: Configuration | undefined;
  /** Which walk over a vocabulary met it last, and as which number. */
  walk = 0;
  place = 0;

  constructor(
    threads: readonly Thread[],
    { accepting, reach }: { accepting: boolean; reach: number },
  ) {
    this.threads = threads;
    this.accepting = accepting;
    this.reach = reach;
  }

  /** Where a class of bytes leads; null where nowhere, undefined where no step has looked yet. */
  next(byteClass: number): Configuration | null | undefined {
    const { groups } = this;
    return groups === undefined ? undefined : this.nexts[groups.groupOf[byteClass]!];
  }
}

/** Which bytes lead alike from some nodes. */
export interface GroupsOfNodes {
  readonly nodes: Uint32Array;
  readonly groups: ByteGroups;
}

/** A hash with one more number in it. */
export function mixed(hash: number, number: number): number {
  const product = Math.imul(hash ^ number, 0x9e3779b1);
  return (product ^ (product >>> 15)) + 1;
}

/** Whether threads are in these places, in this order. */
export function hasNodes(threads: readonly Thread[], nodes: Uint32Array): boolean {
  if (threads.length !== nodes.length) return false;
  for (let i = 0; i < nodes.length; i++) if (threads[i]!.node !== nodes[i]) return false;
  return true;
}

/** Whether a configuration is the one of these threads. */
export function isSame(
  known: Configuration,
  threads: readonly Thread[],
  accepting: boolean,
): boolean {
  if (known.accepting !== accepting || known.threads.length !== threads.length) return false;
  for (let i = 0; i < threads.length; i++) if (known.threads[i] !== threads[i]) return false;
  return true;
}
