/**
 * Which launches a dense feed-forward block takes, up to its down projection.
 *
 * @module
 */
import type { InputRounding } from "../rounded_rows.ts";
import { always, type LayerLaunch } from "./launch_list.ts";

export interface MlpLaunchFacts {
  /** How the inputs of the down projection are rounded. */
  readonly rounding: InputRounding;
}

export type MlpLaunch = "gateUp" | "round";

export function mlpLaunches({ rounding }: MlpLaunchFacts): readonly LayerLaunch<MlpLaunch>[] {
  const gateUp = { name: "gateUp", takes: always } as const;
  return rounding === "apart" ? [gateUp, { name: "round", takes: always }] : [gateUp];
}
