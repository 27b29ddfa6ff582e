/**
 * Rows of each attention group on their way to all ranks. The ranks of a group have the same rows: the
 * first of them brings them.
 *
 * @module
 */
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import { Readback } from "../../gpu/readback.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { GroupSizes, Step } from "../batch.ts";
import type { GroupedRanks } from "./group_sizes.ts";
import { exchangeMemory, readPart } from "./rank_exchange.ts";

export interface GroupExchangeOptions {
  readonly device: GPUDevice;
  readonly memory: DeviceMemory;
  readonly ranks: GroupedRanks;
  /** Rows of one group, at most. */
  readonly maxRows: number;
  readonly rowBytes: number;
}

/** What is brought together in one exchange. */
interface BroughtRows {
  readonly name: string;
  /** `[rows, rowBytes]`: this group's */
  readonly from: Tensor;
  /** Of which group has how many rows. */
  readonly countOf: (group: GroupSizes) => number;
  /** Takes the rows of all groups, one group behind the other. */
  deliver(all: Uint8Array<ArrayBuffer>, step: Step): void;
}

export class GroupExchange {
  readonly #options: GroupExchangeOptions;
  readonly #readback: Readback;
  readonly #all: Uint8Array<ArrayBuffer>;

  constructor(options: GroupExchangeOptions) {
    const { device, memory, ranks, maxRows, rowBytes } = options;
    const bytes = maxRows * rowBytes;
    this.#options = options;
    this.#readback = memory.own(new Readback(device, bytes, 1));
    this.#all = exchangeMemory(ranks, memory, bytes * ranks.attention.groups);
  }

  /** Adds an exchange, in which groups without rows take part with nothing. */
  bring(plan: Plan<Step>, { name, from, countOf, deliver }: BroughtRows): void {
    const { device, ranks, rowBytes } = this.#options;
    const { group: own, groups: groupCount, communicator: group } = ranks.attention;
    const meeting = { device, communicator: ranks };
    const ranksOfGroup = ranks.size / groupCount;
    const isFirst = group.rank === 0;
    let read: ((into: Uint8Array) => Promise<void>) | undefined;
    plan.addVarying(({ groups }) => {
      const bytes = isFirst ? countOf(groups![own]!) * rowBytes : 0;
      read = bytes === 0 ? undefined : this.#readback.recordInto(plan.recorder, from, bytes);
    });
    const run = async (step: Step) => {
      const bytesOf = step.groups!.map((sizes) => countOf(sizes) * rowBytes);
      const counts = Array.from({ length: ranks.size }, (_, rank) =>
        rank % ranksOfGroup === 0 ? bytesOf[rank / ranksOfGroup]! : 0,
      );
      const before = bytesOf.slice(0, own).reduce((sum, bytes) => sum + bytes, 0);
      const total = bytesOf.reduce((sum, bytes) => sum + bytes, 0);
      const all = this.#all.subarray(0, total);
      const part = all.subarray(before, before + counts[ranks.rank]!);
      if (read !== undefined) await readPart(meeting, [read(part)]);
      await ranks.allGather(part, all, { name, counts });
      if (total > 0) deliver(all, step);
    };
    const bytes = ({ groups }: Step) => (isFirst ? countOf(groups![own]!) * rowBytes : 0);
    plan.exchange(name, run, { brings: { kind: "gather", bytes } });
  }
}
