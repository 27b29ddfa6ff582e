/**
 * Which launches grouped-query attention takes, up to its output projection.
 *
 * @module
 */
import type { Step } from "../batch.ts";
import type { InputRounding } from "../rounded_rows.ts";
import { always, type LayerLaunch } from "./launch_list.ts";

export interface GqaLaunchFacts {
  /** Whether one launch can write entries and attend: the tuning wants it, the device has room. */
  readonly writesAndAttends: boolean;
  /** How the inputs of the output projection are rounded. */
  readonly rounding: InputRounding;
  /** Whether batches may have draft trees. */
  readonly takesTrees: boolean;
}

export type GqaLaunch =
  | "project"
  | "writeAndAttend"
  | "write"
  | "attend"
  | "attendTrees"
  | "attendPrompts"
  | "round";

export function gqaLaunches({
  writesAndAttends,
  rounding,
  takesTrees,
}: GqaLaunchFacts): readonly LayerLaunch<GqaLaunch>[] {
  // A row that sees keys of another row of its step waits until those are written.
  const atOnce = ({ rows, decodeRows, decodesOne }: Step) =>
    writesAndAttends && rows === decodeRows && decodesOne;
  const attends = (step: Step) => step.decodeRows > 0 && !atOnce(step);
  const list: LayerLaunch<GqaLaunch>[] = [{ name: "project", takes: always }];
  if (writesAndAttends) list.push({ name: "writeAndAttend", takes: atOnce });
  list.push(
    { name: "write", takes: (step) => !atOnce(step) },
    { name: "attend", takes: (step) => attends(step) && !step.hasTrees },
  );
  if (takesTrees) {
    list.push({ name: "attendTrees", takes: (step) => attends(step) && step.hasTrees });
  }
  list.push({ name: "attendPrompts", takes: ({ passes }) => passes.length > 0 });
  if (rounding !== "none") {
    list.push({ name: "round", takes: (step) => firstUnrounded(rounding, step) < step.rows });
  }
  return list;
}

/** Rows in front of this one come rounded from the launch that merges their splits. */
export function firstUnrounded(
  rounding: InputRounding,
  { decodeRows, decodeSplits }: Pick<Step, "decodeRows" | "decodeSplits">,
): number {
  return rounding === "inKernel" && decodeSplits > 1 ? decodeRows : 0;
}
