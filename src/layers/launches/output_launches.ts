/**
 * Which launches the linear at the end of a block takes: attention's output, the down projection. It
 * writes its outputs for the next norm to add, or adds them to the residual stream itself.
 *
 * @module
 */
import type { Step, StepRows } from "../batch.ts";
import type { MatrixRows } from "../block_rows.ts";
import { always, type LayerLaunch } from "./launch_list.ts";

export interface OutputLaunchFacts {
  /** What a launch that adds its outputs says of itself; undefined where there is none. */
  readonly adding:
    | {
        /** Whether it takes steps of any number of rows. */
        readonly addsAll: boolean;
        readonly adds: (rows: number) => boolean;
      }
    | undefined;
  readonly matrices: MatrixRows;
}

export type OutputLaunch = "addOutputs" | "writeOutputs";

export function outputLaunches(facts: OutputLaunchFacts): readonly LayerLaunch<OutputLaunch>[] {
  const { adding, matrices } = facts;
  const writes = { name: "writeOutputs", takes: always } as const;
  if (adding === undefined) return [writes];
  const adds = (step: Step) => addsOutputs(facts, step);
  const both = [
    { name: "addOutputs", takes: adds },
    { name: "writeOutputs", takes: (step: Step) => !adds(step) },
  ] as const;
  return adding.addsAll && matrices === "none" ? both.slice(0, 1) : both;
}

/** Whether in such a step outputs are added to the residual stream. */
export function addsOutputs(
  { adding, matrices }: OutputLaunchFacts,
  { rows, decodeRows }: StepRows,
): boolean {
  // Rows that matrices multiply have no such launch.
  return adding?.adds(rows) === true && (matrices === "none" || rows === decodeRows);
}

/** Whether a launch that adds its outputs is to be bound. */
export function bindsAdding(output: {
  /** Whether the block may add to the residual stream. */
  readonly mayAdd: boolean;
  /** Whether one tensor holds the weight. */
  readonly isWhole: boolean;
  /** Whether its inputs are codes. */
  readonly isCoded: boolean;
  readonly matrices: MatrixRows;
}): boolean {
  return output.mayAdd && output.isWhole && !output.isCoded && output.matrices !== "all";
}
