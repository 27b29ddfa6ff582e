/**
 * Where experts are at the start, as a caller says it: a placement, or how often each expert was
 * chosen, of which one is made.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import { type BalanceAlgorithm, balanceExperts, type PlacementSizes } from "./balance_experts.ts";
import {
  type ExpertPlacement,
  type PlacementShape,
  requirePlacement,
  trivialPlacement,
} from "./expert_placement.ts";

/**
 * As a recorder writes it down: `physical_to_logical_map` `[layers][slots]`, the expert of each slot,
 * and nothing else; or `logical_count` `[layers][experts]`, or `[steps][layers][experts]`.
 */
export type ExpertLocation = "trivial" | Readonly<Record<string, unknown>>;

export interface LocationSizes extends Omit<PlacementSizes, "slots">, PlacementShape {
  readonly algorithm: BalanceAlgorithm;
}

/**
 * @throws {InvalidRequestError} naming what is wrong with it.
 */
export function placeExperts(location: ExpertLocation, sizes: LocationSizes): ExpertPlacement {
  if (location === "trivial") return trivialPlacement(sizes);
  const { physical_to_logical_map: map, logical_count: counts } = location;
  if (map !== undefined) {
    const other = Object.keys(location).find((key) => key !== "physical_to_logical_map");
    if (other !== undefined) throw refusal(`it has both physical_to_logical_map and ${other}`);
    return requirePlacement(numberLists(map, "physical_to_logical_map"), sizes);
  }
  if (counts === undefined) {
    throw refusal("it has neither physical_to_logical_map nor logical_count");
  }
  return balanceLayers(stepsOf(counts, sizes), sizes);
}

/** A placement of all layers, by what recorded steps have chosen. */
function balanceLayers(
  steps: readonly (readonly ArrayLike<number>[])[],
  { layers, algorithm, ...sizes }: LocationSizes,
): ExpertPlacement {
  return Array.from({ length: layers }, (_, layer) =>
    balanceExperts(
      steps.map((step) => step[layer]!),
      sizes,
      algorithm,
    ),
  );
}

/** Lists of counts of each layer, a list a step. */
function stepsOf(counts: unknown, { layers, experts }: PlacementShape) {
  const isOneStep =
    Array.isArray(counts) && Array.isArray(counts[0]) && !Array.isArray(counts[0][0]);
  const steps: unknown = isOneStep ? [counts] : counts;
  if (!Array.isArray(steps) || steps.length === 0) throw refusal("logical_count is no list");
  return steps.map((step: unknown) => {
    const lists = numberLists(step, "logical_count");
    if (lists.length !== layers) {
      throw refusal(`logical_count has ${lists.length} layers, the model has ${layers}`);
    }
    lists.forEach((list, layer) => {
      if (list.length !== experts) {
        throw refusal(`logical_count of layer ${layer} has ${list.length} experts, not ${experts}`);
      }
      if (list.some((count) => count < 0 || !Number.isFinite(count))) {
        throw refusal(`logical_count of layer ${layer} has a count that is none`);
      }
    });
    return lists;
  });
}

function numberLists(value: unknown, name: string): readonly (readonly number[])[] {
  const isList = (one: unknown): one is readonly number[] =>
    Array.isArray(one) && one.every((number) => typeof number === "number");
  if (Array.isArray(value) && value.every(isList)) return value;
  throw refusal(`${name} is no list of lists of numbers`);
}

const refusal = (state: string) =>
  new InvalidRequestError(`Cannot use this location of experts: ${state}`, "expertLocation");
