/**
 * The rows of all attention groups together, for blocks whose weights all ranks share: experts, dense
 * feed-forward blocks.
 *
 * Rows of generated tokens come first, as in every batch, those of the groups one behind the other.
 * Every rank computes its part of the block for all of them, and each group goes on with its own.
 *
 * @module
 */
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { GroupSizes, Step } from "../batch.ts";
import { GroupExchange } from "./group_exchange.ts";
import { type GroupedRanks, partOfAll, sumOfGroups } from "./group_sizes.ts";

export interface GroupRowsOptions {
  readonly device: GPUDevice;
  readonly memory: DeviceMemory;
  readonly ranks: GroupedRanks;
  /** Of one group. */
  readonly maxRows: number;
  /** Elements from one row to the next. */
  readonly stride: number;
}

/** A run of a group's rows: where it is in the group, where among those of all, and its length. */
interface RowRun {
  readonly own: number;
  readonly all: number;
  readonly count: number;
}

export class GroupRows {
  readonly #options: GroupRowsOptions;
  readonly #exchange: GroupExchange;

  constructor(options: GroupRowsOptions) {
    const { stride } = options;
    this.#options = options;
    this.#exchange = new GroupExchange({ ...options, rowBytes: stride * 4 });
  }

  /**
   * Adds what brings the rows of all groups together.
   *
   * @param rows `own`: `[maxRows, stride]` f32; `all`: `[groups * maxRows, stride]` f32.
   */
  bring(
    plan: Plan<Step>,
    name: string,
    rows: { readonly own: Tensor; readonly all: Tensor },
  ): void {
    const { memory, stride } = this.#options;
    const rowBytes = stride * 4;
    this.#exchange.bring(plan, {
      name,
      from: rows.own,
      countOf: (group) => group.rows,
      deliver: (bytes, { groups }) => {
        let first = 0;
        groups!.forEach((sizes, group) => {
          for (const { own, all, count } of runsOf(groups!, group)) {
            const from = (first + own) * rowBytes;
            memory.write(rows.all, all * rowBytes, bytes.subarray(from, from + count * rowBytes));
          }
          first += sizes.rows;
        });
      },
    });
  }

  /** Adds launches for the rows of all groups. */
  within(plan: Plan<Step>, build: () => void): void {
    plan.within(partOfAll(), build);
  }

  /** Adds the way back of this group's rows. */
  take(plan: Plan<Step>, rows: { readonly own: Tensor; readonly all: Tensor }): void {
    const { ranks, stride } = this.#options;
    const rowBytes = stride * 4;
    plan.addVarying(({ groups }) => {
      for (const { own, all, count } of runsOf(groups!, ranks.attention.group)) {
        const from = { ...rows.all, offset: rows.all.offset + all * rowBytes };
        const to = { ...rows.own, offset: rows.own.offset + own * rowBytes };
        plan.recorder.copy(from, to, count * rowBytes);
      }
    });
  }
}

/** Where the rows of a group are among those of all: its generated ones, then its prompts'. */
function runsOf(groups: readonly GroupSizes[], group: number): readonly RowRun[] {
  const before = groups.slice(0, group);
  const { rows, decodeRows } = groups[group]!;
  const decoded = sumOfGroups(before, "decodeRows");
  const prompts = sumOfGroups(before, "rows") - decoded;
  return [
    { own: 0, all: decoded, count: decodeRows },
    {
      own: decodeRows,
      all: sumOfGroups(groups, "decodeRows") + prompts,
      count: rows - decodeRows,
    },
  ].filter(({ count }) => count > 0);
}
