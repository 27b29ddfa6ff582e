/**
 * Which experts each rank of a group holds, and which of an expert's slots rows go to.
 *
 * Physical experts stand in slots. Slots are cut in runs of as many, one behind the other: a run a
 * rank where they can be shared out evenly, else a run for several ranks, or one that all have.
 *
 * @module
 */
import type { Communicator } from "../communicator.ts";
import { type DispatchAlgorithm, type DispatchTables, dispatchTables } from "./dispatch_tables.ts";
import { type ExpertPlacement, trivialPlacement } from "./expert_placement.ts";

/** Neighbouring slots. */
export interface SlotRun {
  readonly first: number;
  readonly count: number;
}

export interface ExpertLayoutOptions {
  /** Experts that rows are routed to. */
  readonly experts: number;
  /** Of the group. */
  readonly ranks: number;
  /**
   * Runs that there are at least, where there cannot be one a rank; divides ranks and slots.
   * Default 1.
   */
  readonly leastRuns?: number;
  readonly placement: ExpertPlacement;
  /** Default static. */
  readonly dispatch?: DispatchAlgorithm;
}

export class ExpertLayout {
  readonly experts: number;
  /** As many as experts, and those for copies. */
  readonly slots: number;
  /** Slots of a run. */
  readonly each: number;
  readonly dispatch: DispatchAlgorithm;
  /** How many ranks have the same run. */
  readonly #sharers: number;
  readonly #placement: (readonly number[])[];

  constructor(options: ExpertLayoutOptions) {
    const { experts, ranks, leastRuns = 1, placement, dispatch = "static" } = options;
    this.experts = experts;
    this.slots = placement[0]!.length;
    const runs = this.slots % ranks === 0 ? ranks : leastRuns;
    this.each = this.slots / runs;
    this.#sharers = ranks / runs;
    this.dispatch = dispatch;
    this.#placement = [...placement];
  }

  /** A slot an expert. */
  static plain({ size: ranks }: Pick<Communicator, "size">, experts: number): ExpertLayout {
    const placement = trivialPlacement({ layers: 1, experts, slots: experts });
    return new ExpertLayout({ experts, ranks, placement });
  }

  get runs(): number {
    return this.slots / this.each;
  }

  /** Whether no rank has all slots. */
  get isShared(): boolean {
    return this.runs > 1;
  }

  /** All that ranks must have alike. */
  get asText(): string {
    const layers = this.#placement.map((slots) => slots.join());
    // Layers mostly have the same.
    const lists = layers.every((list) => list === layers[0]) ? layers.slice(0, 1) : layers;
    return `${this.dispatch} ${this.runs} ${lists.join(";")}`;
  }

  runOf(rank: number): SlotRun {
    return { first: Math.floor(rank / this.#sharers) * this.each, count: this.each };
  }

  /** The first rank that has a slot. */
  ownerOf(slot: number): number {
    return Math.floor(slot / this.each) * this.#sharers;
  }

  /** The expert of each slot. All layers of a plain layout are alike. */
  placementOf(layer: number): readonly number[] {
    return this.#placement[layer] ?? this.#placement[0]!;
  }

  /** Says what slots hold from now on. */
  place(layer: number, placement: readonly number[]): void {
    this.#placement[layer] = placement;
  }

  tablesOf(layer: number): DispatchTables {
    const sizes = { experts: this.experts, ranks: this.runs, layer };
    return dispatchTables(this.placementOf(layer), sizes, this.dispatch);
  }

  /** Whether a slot of a rank holds an expert in a layer. */
  holds(expert: number, layer: number, rank: number): boolean {
    const { first, count } = this.runOf(rank);
    const slot = this.placementOf(layer).indexOf(expert, first);
    return slot !== -1 && slot < first + count;
  }

  /** The slots of a rank, by the expert that they hold in a layer. */
  slotsByExpert(layer: number, rank: number): ReadonlyMap<number, readonly number[]> {
    const { first, count } = this.runOf(rank);
    const placement = this.placementOf(layer);
    const slots = new Map<number, number[]>();
    for (let slot = first; slot < first + count; slot++) {
      const expert = placement[slot]!;
      slots.set(expert, [...(slots.get(expert) ?? []), slot]);
    }
    return slots;
  }
}
