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

type Read = (take: (mapped: ArrayBuffer) => void) => Promise<void>;

/** Bytes that each rank brings, and where they begin. */
interface Brought {
  readonly counts: number[];
  readonly places: number[];
}

export class SlotExchange {
  /** Which rank adds the slots of a row up; absent where all ranks do. */
  readonly returns: RowReturn | undefined;
  readonly #options: SlotExchangeOptions;
  readonly #readback: Readback;
  readonly #experts: Uint32Array<ArrayBuffer>;
  /** Rows of all pairs, as the GPU has them. */
  readonly #rows: Uint8Array<ArrayBuffer>;
  /** Those of all ranks that have come, one rank behind the other. */
  readonly #all: Uint8Array<ArrayBuffer>;
  /** Those that go to one rank each, packed; absent where all go to all. */
  readonly #part: Uint8Array<ArrayBuffer> | undefined;

  constructor(options: SlotExchangeOptions) {
    const { device, memory, communicator, maxPairs, stride, returns } = options;
    const bytes = maxPairs * stride * 4;
    this.#options = options;
    this.returns = returns;
    this.#readback = memory.own(new Readback(device, maxPairs * 4 + bytes, 1));
    this.#experts = new Uint32Array(maxPairs);
    this.#rows = new Uint8Array(bytes);
    this.#all = exchangeMemory(communicator, memory, bytes);
    this.#part = returns && exchangeMemory(communicator, memory, bytes);
  }

  /** Adds the exchange of a layer. */
  compile(plan: Plan<Step>, layer: ExchangedLayer): void {
    const { name, slots } = layer;
    const { experts, output, stride } = this.#options;
    let read: Read | undefined;
    plan.addVarying(({ rows }) => {
      const pairs = rows * slots;
      const results = [
        { ...experts, size: pairs * 4 },
        { ...output, size: pairs * stride * 4 },
      ];
      read = pairs === 0 ? undefined : this.#readback.recordAll(plan.recorder, results);
    });
    const { returns } = this;
    const run = async (step: Step) => {
      if (returns?.isTaken(step)) await this.#sendBack(read, layer, step.rows, returns);
      else await this.#gather(read, layer, step.rows * slots);
    };
    // Each rank has its share of the experts that are chosen, and of what goes to one rank its part.
    const { size } = this.#options.communicator;
    const bytes = (step: Step) => {
      const share = returns?.isTaken(step) === true ? size * size : size;
      return (step.rows * layer.routed * stride * 4) / share;
    };
    plan.exchange(name, run, { brings: { kind: "experts", bytes } });
  }

  /** Takes what was read of so many pairs, once it is there: the rows as long as `take` runs. */
  async #read(
    read: Read | undefined,
    pairs: number,
    take: (rows: Uint8Array) => void,
  ): Promise<void> {
    if (read === undefined) return;
    const reading = read((mapped) => {
      this.#experts.set(new Uint32Array(mapped, 0, pairs));
      take(new Uint8Array(mapped, pairs * 4));
    });
    await readPart(this.#options, [reading]);
  }

  async #gather(
    read: Read | undefined,
    { name, layout }: ExchangedLayer,
    pairs: number,
  ): Promise<void> {
    const { communicator, memory, output, stride } = this.#options;
    const { rank, size } = communicator;
    const rowBytes = stride * 4;
    let brought: Brought = { counts: Array<number>(size).fill(0), places: Array(size).fill(0) };
    await this.#read(read, pairs, (rows) => {
      brought = this.#broughtBy(pairs, layout);
      let own = brought.places[rank]!;
      for (let pair = 0; pair < pairs; pair++) {
        const owner = this.#owner(pair, layout);
        if (owner !== undefined && owner !== rank) continue;
        const row = rows.subarray(pair * rowBytes, (pair + 1) * rowBytes);
        if (owner === undefined) this.#row(pair).set(row);
        else {
          this.#all.set(row, own);
          own += rowBytes;
        }
      }
    });
    const { counts, places } = brought;
    const part = this.#all.subarray(places[rank], places[rank]! + counts[rank]!);
    const all = this.#all.subarray(0, sumOf(counts));
    await communicator.allGather(part, all, { name, counts });
    if (pairs === 0) return;
    for (let pair = 0; pair < pairs; pair++) {
      const owner = this.#owner(pair, layout);
      if (owner === undefined) continue;
      const at = places[owner]!;
      this.#row(pair).set(this.#all.subarray(at, at + rowBytes));
      places[owner] = at + rowBytes;
    }
    memory.write(output, 0, this.#rows.subarray(0, pairs * rowBytes));
  }

  #broughtBy(pairs: number, layout: ExpertLayout): Brought {
    const { communicator, stride } = this.#options;
    const counts = Array<number>(communicator.size).fill(0);
    for (let pair = 0; pair < pairs; pair++) {
      const owner = this.#owner(pair, layout);
      if (owner !== undefined) counts[owner]! += stride * 4;
    }
    return { counts, places: counts.map((_, i) => sumOf(counts.slice(0, i))) };
  }

  /** Each slot goes to the rank of its row alone, which then has all of them. */
  async #sendBack(
    read: Read | undefined,
    { name, slots, layout }: ExchangedLayer,
    rows: number,
    returns: RowReturn,
  ): Promise<void> {
    const { communicator, memory, output, stride } = this.#options;
    const { rank, size } = communicator;
    const rowBytes = stride * 4;
    const own = returns.rowsOf(rank, rows);
    const sends = Array<number>(size).fill(0);
    const receives = Array<number>(size).fill(0);
    const packed = this.#part!;
    let sent = 0;
    await this.#read(read, rows * slots, (made) => {
      const rowOf = (pair: number) => made.subarray(pair * rowBytes, (pair + 1) * rowBytes);
      for (let to = 0; to < size; to++) {
        if (to === rank) continue;
        this.#eachPair(returns.rowsOf(to, rows), slots, (pair) => {
          if (this.#sender(pair, layout, to) !== rank) return;
          packed.set(rowOf(pair), sent);
          sent += rowBytes;
          sends[to]! += rowBytes;
        });
      }
      this.#eachPair(own, slots, (pair) => {
        const from = this.#sender(pair, layout, rank);
        if (from === rank) this.#row(pair).set(rowOf(pair));
        else receives[from]! += rowBytes;
      });
    });
    const into = this.#all.subarray(0, sumOf(receives));
    await communicator.allToAll(packed.subarray(0, sent), into, { name, sends, receives });
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
