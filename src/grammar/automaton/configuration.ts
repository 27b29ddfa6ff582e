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
