/**
 * What attention groups have of a step and of its parts, and how the groups tell each other.
 *
 * Each group computes a batch of its own, of other sizes than the next group's. All ranks must still
 * come to the same exchanges, so that a part of a step is there for all of them where one group has it.
 *
 * @module
 */
import { largestOf } from "../../extremes.ts";
import type { AttentionGroup, Communicator } from "../../parallel/communicator.ts";
import { EMPTY_STEP, type GroupSizes, type Step } from "../batch.ts";

/** Ranks in several groups, and which of the groups this one is in. */
export type GroupedRanks = Communicator & { readonly attention: AttentionGroup };

/** Undefined where all ranks attend to the same rows. */
export function groupedRanks(communicator: Communicator): GroupedRanks | undefined {
  return communicator.attention === undefined ? undefined : (communicator as GroupedRanks);
}

type Told = readonly [number, number, number, number, number, number, number];
/** Words of what a rank tells. */
const WORDS = 7;

/** Has every rank know what each group brings to a step. */
export class SizesExchange {
  readonly #ranks: GroupedRanks;
  readonly #own = new Uint32Array(WORDS);
  readonly #all: Uint32Array<ArrayBuffer>;
  readonly #counts: readonly number[];

  constructor(ranks: GroupedRanks) {
    this.#ranks = ranks;
    this.#all = new Uint32Array(WORDS * ranks.size);
    this.#counts = Array<number>(ranks.size).fill(WORDS * 4);
  }

  /**
   * @param step Of this rank's group.
   * @throws {GroupError} when a rank has left.
   */
  async meet(step: Step): Promise<readonly GroupSizes[]> {
    const { rows, decodeRows, logitRows, draft, microBatches } = step;
    const { size, attention } = this.#ranks;
    const { sequences = 0, steps = 0 } = draft ?? {};
    const enters = Number(draft !== undefined);
    const firstRows = microBatches?.[0].rows ?? rows;
    this.#own.set([rows, decodeRows, firstRows, logitRows, enters, sequences, steps]);
    const exchange = { name: "sizes of groups", counts: this.#counts };
    const own = new Uint8Array(this.#own.buffer);
    await this.#ranks.allGather(own, new Uint8Array(this.#all.buffer), exchange);
    const ranksOfGroup = size / attention.groups;
    return Array.from({ length: attention.groups }, (_, group) => {
      const at = group * ranksOfGroup * WORDS;
      const words: readonly number[] = Array.from(this.#all.subarray(at, at + WORDS));
      const [rows, decodeRows, firstRows, logitRows, enters, sequences, steps] = words as Told;
      return { rows, decodeRows, firstRows, logitRows, enters: enters === 1, sequences, steps };
    });
  }
}

/** What all groups have together. */
export function sumOfGroups(
  groups: readonly GroupSizes[],
  name: "rows" | "decodeRows" | "firstRows" | "logitRows",
): number {
  return groups.reduce((sum, group) => sum + group[name], 0);
}

/** The part of a step in which rows of all groups are computed together. */
export function partOfAll(): {
  readonly times: (step: Step) => number;
  readonly stepOf: (step: Step) => Step;
} {
  const all: Step = { ...EMPTY_STEP };
  return {
    times: ({ groups }) => (sumOfGroups(groups!, "rows") > 0 ? 1 : 0),
    stepOf: ({ groups }) => {
      all.rows = sumOfGroups(groups!, "rows");
      all.decodeRows = sumOfGroups(groups!, "decodeRows");
      all.logitRows = sumOfGroups(groups!, "logitRows");
      return all;
    },
  };
}

const NO_ROWS = { rows: 0, decodeRows: 0, logitRows: 0 };

/** What groups have of the part in which rows enter a draft module's cache. */
export function enteringGroups(groups: readonly GroupSizes[]): readonly GroupSizes[] {
  return groups.map((group) => (group.enters ? group : { ...group, ...NO_ROWS }));
}

/** What groups have of one of two micro-batches. */
export function microBatchGroups(
  groups: readonly GroupSizes[],
  which: 0 | 1,
): readonly GroupSizes[] {
  return groups.map((group) => {
    const { firstRows } = group;
    const firstDecoded = Math.min(group.decodeRows, firstRows);
    return which === 0
      ? { ...group, rows: firstRows, decodeRows: firstDecoded }
      : { ...group, rows: group.rows - firstRows, decodeRows: group.decodeRows - firstDecoded };
  });
}

/**
 * What groups have of the part that makes the n-th draft of each sequence, from 0.
 *
 * @param beams Rows of a sequence, each of which follows a path of drafts.
 */
export function draftingGroups(
  groups: readonly GroupSizes[],
  n: number,
  beams = 1,
): readonly GroupSizes[] {
  return groups.map((group) => {
    const rows = group.steps > n ? group.sequences * beams : 0;
    return { ...group, rows, decodeRows: rows, logitRows: rows };
  });
}

/** Drafts of a sequence that follow each other, in the group that makes most. */
export function mostDrafts({ draft, groups }: Step): number {
  return largestOf(
    (groups ?? []).map(({ steps }) => steps),
    draft?.steps ?? 0,
  );
}
