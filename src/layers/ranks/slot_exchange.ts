/**
 * What experts on several ranks made of the rows, brought together.
 *
 * The router runs on every rank, with the same choices. A rank computes the slots of the experts it
 * has and those of shared experts, which every rank has; the others' slots come over the host: those of
 * all rows to every rank, or, where there is a `RowReturn`, those of a row to its own rank.
 *
 * @module
 */
import type { DeviceMemory } from "../../gpu/memory.ts";
import type { Plan } from "../../gpu/plan.ts";
import { Readback } from "../../gpu/readback.ts";
import type { Tensor } from "../../gpu/tensor.ts";
import type { Communicator } from "../../parallel/communicator.ts";
import type { ExpertLayout } from "../../parallel/experts/expert_layout.ts";
import type { Step } from "../batch.ts";
import { exchangeMemory, readPart } from "./rank_exchange.ts";
import type { RowReturn } from "./row_return.ts";

export interface SlotExchangeOptions {
  readonly device: GPUDevice;
  readonly memory: DeviceMemory;
  readonly communicator: Communicator;
  /** Pairs of a row and one of its slots, at most. */
  readonly maxPairs: number;
  /** `[maxPairs]` u32: the expert of each pair */
  readonly experts: Tensor;
  /** `[maxPairs, stride]` f32: what it made of the row */
  readonly output: Tensor;
  readonly stride: number;
  /** Which rank adds the slots of a row up; absent where all ranks do. */
  readonly returns?: RowReturn | undefined;
}

/** A layer's exchange. */
interface ExchangedLayer {
  readonly name: string;
  /** Of a row, and those of them that are not on every rank. */
  readonly slots: number;
  readonly routed: number;
  readonly layout: ExpertLayout;
}

type Read = (into: Uint8Array) => Promise<void>;

export class SlotExchange {
  /** Which rank adds the slots of a row up; absent where all ranks do. */
  readonly returns: RowReturn | undefined;
  readonly #options: SlotExchangeOptions;
  readonly #expertReadback: Readback;
  readonly #rowReadback: Readback;
  readonly #experts: Uint32Array<ArrayBuffer>;
  /** Rows of all pairs; this rank's, packed; those of all ranks, one rank behind the other. */
  readonly #rows: Uint8Array<ArrayBuffer>;
  readonly #part: Uint8Array<ArrayBuffer>;
  readonly #all: Uint8Array<ArrayBuffer>;

  constructor(options: SlotExchangeOptions) {
    const { device, memory, communicator, maxPairs, stride, returns } = options;
    const bytes = maxPairs * stride * 4;
    this.#options = options;
    this.returns = returns;
    this.#expertReadback = memory.own(new Readback(device, maxPairs * 4, 1));
    this.#rowReadback = memory.own(new Readback(device, bytes, 1));
    this.#experts = new Uint32Array(maxPairs);
    this.#rows = new Uint8Array(bytes);
    this.#part = exchangeMemory(communicator, memory, bytes);
    this.#all = exchangeMemory(communicator, memory, bytes);
  }

  /** Adds the exchange of a layer. */
  compile(plan: Plan<Step>, layer: ExchangedLayer): void {
    const { name, slots } = layer;
    const { recorder } = plan;
    const { experts, output, stride } = this.#options;
    let reads: readonly [Read, Read] | undefined;
    plan.addVarying(({ rows }) => {
      const pairs = rows * slots;
      reads =
        pairs === 0
          ? undefined
          : [
              this.#expertReadback.recordInto(recorder, experts, pairs * 4),
              this.#rowReadback.recordInto(recorder, output, pairs * stride * 4),
            ];
    });
    const { returns } = this;
    const run = async (step: Step) => {
      if (reads !== undefined) {
        const [readExperts, readRows] = reads;
        await readPart(this.#options, [
          readExperts(new Uint8Array(this.#experts.buffer)),
          readRows(this.#rows),
        ]);
      }
      if (returns?.isTaken(step)) await this.#sendBack(layer, step.rows, returns);
      else await this.#gather(layer, step.rows * slots);
    };
    // Each rank has its share of the experts that are chosen, and of what goes to one rank its part.
    const { size } = this.#options.communicator;
    const bytes = (step: Step) => {
      const share = returns?.isTaken(step) === true ? size * size : size;
      return (step.rows * layer.routed * stride * 4) / share;
    };
    plan.exchange(name, run, { brings: { kind: "experts", bytes } });
  }

  async #gather({ name, layout }: ExchangedLayer, pairs: number): Promise<void> {
    const { communicator, memory, output, stride } = this.#options;
    const { rank, size } = communicator;
    const rowBytes = stride * 4;
    const counts = Array<number>(size).fill(0);
    for (let pair = 0; pair < pairs; pair++) {
      const owner = this.#owner(pair, layout);
      if (owner === undefined) continue;
      if (owner === rank) {
        this.#part.set(this.#row(pair), counts[rank]!);
      }
      counts[owner]! += rowBytes;
    }
    const total = sumOf(counts);
    const part = this.#part.subarray(0, counts[rank]);
    await communicator.allGather(part, this.#all.subarray(0, total), { name, counts });
    if (pairs === 0) return;
    const next = counts.map((_, i) => counts.slice(0, i).reduce((sum, count) => sum + count, 0));
    for (let pair = 0; pair < pairs; pair++) {
      const owner = this.#owner(pair, layout);
      if (owner === undefined) continue;
      const at = next[owner]!;
      if (owner !== rank) this.#row(pair).set(this.#all.subarray(at, at + rowBytes));
      next[owner] = at + rowBytes;
    }
    memory.write(output, 0, this.#rows.subarray(0, pairs * rowBytes));
  }

  /** Each slot goes to the rank of its row alone, which then has all of them. */
  async #sendBack(
    { name, slots, layout }: ExchangedLayer,
    rows: number,
    returns: RowReturn,
  ): Promise<void> {
    const { communicator, memory, output, stride } = this.#options;
    const { rank, size } = communicator;
    const rowBytes = stride * 4;
    const sends = Array<number>(size).fill(0);
    let sent = 0;
    for (let to = 0; to < size; to++) {
      if (to === rank) continue;
      const begun = sent;
      this.#eachPair(returns.rowsOf(to, rows), slots, (pair) => {
        if (this.#sender(pair, layout, to) !== rank) return;
        this.#part.set(this.#row(pair), sent);
        sent += rowBytes;
      });
      sends[to] = sent - begun;
    }
    const own = returns.rowsOf(rank, rows);
    const receives = Array<number>(size).fill(0);
    this.#eachPair(own, slots, (pair) => {
      const from = this.#sender(pair, layout, rank);
      if (from !== rank) receives[from]! += rowBytes;
    });
    const into = this.#all.subarray(0, sumOf(receives));
    const part = this.#part.subarray(0, sent);
    await communicator.allToAll(part, into, { name, sends, receives });
    if (own.count === 0) return;
    const next = receives.map((_, i) => sumOf(receives.slice(0, i)));
    this.#eachPair(own, slots, (pair) => {
      const from = this.#sender(pair, layout, rank);
      if (from === rank) return;
      const at = next[from]!;
      this.#row(pair).set(this.#all.subarray(at, at + rowBytes));
      next[from] = at + rowBytes;
    });
    const first = own.first * slots * rowBytes;
    const end = first + own.count * slots * rowBytes;
    memory.write(output, first, this.#rows.subarray(first, end));
  }

  #eachPair(
    { first, count }: { readonly first: number; readonly count: number },
    slots: number,
    visit: (pair: number) => void,
  ): void {
    for (let pair = first * slots; pair < (first + count) * slots; pair++) visit(pair);
  }

  /** The rank that a row's rank has a slot from: itself, where it has the expert too. */
  #sender(pair: number, layout: ExpertLayout, rowRank: number): number {
    const slot = this.#experts[pair]!;
    if (slot >= layout.slots) return rowRank;
    const { first, count } = layout.runOf(rowRank);
    return slot >= first && slot < first + count ? rowRank : layout.ownerOf(slot);
  }

  /** The rank that has the expert of a pair; undefined when every rank has it. */
  #owner(pair: number, layout: ExpertLayout): number | undefined {
    const slot = this.#experts[pair]!;
    return slot < layout.slots ? layout.ownerOf(slot) : undefined;
  }

  #row(pair: number): Uint8Array<ArrayBuffer> {
    const rowBytes = this.#options.stride * 4;
    return this.#rows.subarray(pair * rowBytes, (pair + 1) * rowBytes);
  }
}

const sumOf = (counts: readonly number[]) => counts.reduce((sum, count) => sum + count, 0);
