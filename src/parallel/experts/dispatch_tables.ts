/**
 * Which of an expert's slots the rows that choose it go to.
 *
 * Rows find it in one of several tables, each with one slot for every expert. No bit depends on which
 * table a row takes: all slots of an expert hold the same.
 *
 * @module
 */
import { slotsOfExperts } from "./expert_placement.ts";

/**
 * | value | a row that chooses an expert goes to |
 * |---|---|
 * | static | the slot of the rank whose turn the row is, else one that ranks without it share evenly |
 * | dynamic | any of its slots, by what the router made of the row |
 * | fake | as dynamic; the choices themselves are made up, so that all experts have as much to do |
 */
export const DISPATCH_ALGORITHMS = ["static", "dynamic", "fake"] as const;
export type DispatchAlgorithm = (typeof DISPATCH_ALGORITHMS)[number];

export interface DispatchTables {
  /** How many there are. */
  readonly count: number;
  /** `[count][experts]`: slots */
  readonly slots: Uint32Array<ArrayBuffer>;
}

/** Tables of `dynamic`: as many as make the shares of three copies differ by 2 %. */
const DYNAMIC_TABLES = 64;

export interface DispatchSizes {
  readonly experts: number;
  /** Which have runs of the slots. */
  readonly ranks: number;
  /** Makes the choices of one layer others than those of the next. */
  readonly layer: number;
}

/** One table where no expert has a copy. */
export function dispatchTables(
  ofSlots: readonly number[],
  { experts, ranks, layer }: DispatchSizes,
  algorithm: DispatchAlgorithm,
): DispatchTables {
  const slotsOf = slotsOfExperts(ofSlots, experts);
  if (slotsOf.every(({ length }) => length === 1)) {
    return { count: 1, slots: Uint32Array.from(slotsOf, ([slot]) => slot!) };
  }
  const count = algorithm === "static" ? ranks : DYNAMIC_TABLES;
  const slots = new Uint32Array(count * experts);
  slotsOf.forEach((own, expert) => {
    const choices =
      algorithm === "static"
        ? staticChoices(own, {
            ranks,
            each: ofSlots.length / ranks,
            seed: layer * experts + expert,
          })
        : dynamicChoices(own, layer * experts + expert);
    choices.forEach((slot, table) => {
      slots[table * experts + expert] = slot;
    });
  });
  return { count, slots };
}

/** A table a rank: ranks that have none of the slots share them, each as often as the next but for one. */
function staticChoices(
  own: readonly number[],
  { ranks, each, seed }: { readonly ranks: number; readonly each: number; readonly seed: number },
): number[] {
  // Which ranks come first, and which slots one more, is another matter for each expert.
  let turn = mixed(seed) % own.length;
  const first = mixed(seed + 1) % ranks;
  const chosen = Array<number>(ranks);
  for (let i = 0; i < ranks; i++) {
    const rank = (first + i) % ranks;
    const held = own.find((slot) => Math.floor(slot / each) === rank);
    chosen[rank] = held ?? own[turn++ % own.length]!;
  }
  return chosen;
}

function dynamicChoices(own: readonly number[], seed: number): number[] {
  const first = mixed(seed);
  return Array.from(
    { length: DYNAMIC_TABLES },
    (_, table) => own[((first % own.length) + table) % own.length]!,
  );
}

/** A number that looks random. (Finalizer of MurmurHash3, A. Appleby.) */
function mixed(value: number): number {
  let bits = Math.imul(value ^ (value >>> 16), 0x85ebca6b);
  bits = Math.imul(bits ^ (bits >>> 13), 0xc2b2ae35);
  return (bits ^ (bits >>> 16)) >>> 0;
}
