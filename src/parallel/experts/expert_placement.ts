/**
 * Which expert each slot of each layer holds. Ranks have runs of slots, as many each.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";

/** By layer, those without experts too: the expert of each slot. */
export type ExpertPlacement = readonly (readonly number[])[];

/** What a placement is of. */
export interface PlacementShape {
  readonly layers: number;
  readonly experts: number;
  /** At least as many as experts; those beyond are for copies. */
  readonly slots: number;
}

/** Slots that kernels tell apart at most, and so the experts of a layer with all copies. */
export const MAX_EXPERT_SLOTS = 1024;

/** Slot s has expert s; those beyond the experts have copies of the first ones. */
export function trivialPlacement({ layers, experts, slots }: PlacementShape): ExpertPlacement {
  const slotsOfLayer = Array.from({ length: slots }, (_, slot) => slot % experts);
  return Array.from({ length: layers }, () => slotsOfLayer);
}

/**
 * The same placement, checked.
 *
 * @throws {InvalidRequestError} naming the layer, where one is not of these sizes or leaves an expert
 * without a slot.
 */
export function requirePlacement(
  placement: ExpertPlacement,
  { layers, experts, slots }: PlacementShape,
): ExpertPlacement {
  if (placement.length !== layers) {
    throw refusal(`it has ${placement.length} layers, the model has ${layers}`);
  }
  placement.forEach((ofSlots, layer) => {
    if (ofSlots.length !== slots) {
      throw refusal(`layer ${layer} has ${ofSlots.length} slots, there are ${slots}`);
    }
    const placed = new Set<number>();
    for (const expert of ofSlots) {
      if (!Number.isInteger(expert) || expert < 0 || expert >= experts) {
        throw refusal(`layer ${layer} has expert ${expert}, there are 0 to ${experts - 1}`);
      }
      placed.add(expert);
    }
    if (placed.size === experts) return;
    const missing = Array.from({ length: experts }, (_, e) => e).find((e) => !placed.has(e));
    throw refusal(`layer ${layer} has no slot for expert ${missing}`);
  });
  return placement;
}

const refusal = (state: string) =>
  new InvalidRequestError(`Cannot use this placement of experts: ${state}`, "expertLocation");

/** The slots of each expert, in order. */
export function slotsOfExperts(ofSlots: readonly number[], experts: number): number[][] {
  const slots: number[][] = Array.from({ length: experts }, () => []);
  ofSlots.forEach((expert, slot) => {
    slots[expert]!.push(slot);
  });
  return slots;
}
