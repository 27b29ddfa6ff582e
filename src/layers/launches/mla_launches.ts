/**
 * Which launches latent attention takes, up to its output projection.
 *
 * @module
 */
import type { LinearLayout } from "../../../kernels/linear/linear_layout.ts";
import type { WeightDtype } from "../../../kernels/linear/weights/layout.ts";
import type { ActivationRounding } from "../../../kernels/norm/quantize.ts";
import type { Step } from "../batch.ts";
import { inputRounding, type MatrixRows } from "../block_rows.ts";
import type { InputRounding } from "../rounded_rows.ts";
import { always, type LayerLaunch } from "./launch_list.ts";

export interface MlaLaunchFacts {
  /** How the query latent is rounded in front of the second projection; undefined without a latent. */
  readonly queryRounding: InputRounding | undefined;
  /**
   * For how many rows one launch pays that does all between the first projections and attention;
   * undefined where there is none.
   */
  readonly projectPays: ((rows: number) => boolean) | undefined;
  /** Whether one launch merges the splits of generated rows and makes their values. */
  readonly mergesValues: boolean;
  /** Whether there may be rows of prompts. */
  readonly takesPrompts: boolean;
  /** Whether batches may have draft trees. */
  readonly takesTrees: boolean;
  readonly contextRounding: ContextRounding;
}

/** Which rows of the context a launch of its own rounds. */
export type ContextRounding = "none" | "prompts" | "all";

export type MlaLaunch =
  | "projectFirst"
  | "normProjectAndWrite"
  | "normAndWrite"
  | "roundQueryLatent"
  | "projectQuery"
  | "absorb"
  | "attend"
  | "attendTrees"
  | "mergeToValues"
  | "makeValues"
  | "attendPrompts"
  | "round";

export function mlaLaunches(facts: MlaLaunchFacts): readonly LayerLaunch<MlaLaunch>[] {
  const { queryRounding, projectPays, contextRounding } = facts;
  const atOnce = ({ rows, decodeRows }: Step) => rows === decodeRows && projectPays!(rows);
  const apart = projectPays === undefined ? always : (step: Step) => !atOnce(step);
  const generates = ({ decodeRows }: Step) => decodeRows > 0;
  const list: LayerLaunch<MlaLaunch>[] = [{ name: "projectFirst", takes: always }];
  if (projectPays !== undefined) list.push({ name: "normProjectAndWrite", takes: atOnce });
  list.push({ name: "normAndWrite", takes: apart });
  if (queryRounding === "apart") list.push({ name: "roundQueryLatent", takes: always });
  if (queryRounding !== undefined) list.push({ name: "projectQuery", takes: apart });
  list.push(
    { name: "absorb", takes: generates },
    { name: "attend", takes: (step) => generates(step) && !step.hasTrees },
  );
  if (facts.takesTrees) {
    list.push({ name: "attendTrees", takes: (step) => generates(step) && step.hasTrees });
  }
  list.push({ name: facts.mergesValues ? "mergeToValues" : "makeValues", takes: generates });
  if (facts.takesPrompts) {
    list.push({ name: "attendPrompts", takes: ({ passes }) => passes.length > 0 });
  }
  if (contextRounding !== "none") {
    list.push({
      name: "round",
      takes: (step) => firstUnrounded(contextRounding, step) < step.rows,
    });
  }
  return list;
}

/** Rows in front of this one come rounded from the launch that makes their values. */
export function firstUnrounded(
  rounding: ContextRounding,
  { decodeRows }: Pick<Step, "decodeRows">,
): number {
  return rounding === "prompts" ? decodeRows : 0;
}

/**
 * The launch that makes the values of generated rows rounds them where a group of the rounding is
 * whole workgroups of a head, and no matrices multiply them.
 *
 * @param output The projection whose inputs they are.
 * @param value Elements of a head's value.
 */
export function contextRounding(
  rounding: ActivationRounding | undefined,
  output: { readonly dtype: WeightDtype },
  {
    value,
    lanes,
    matrices,
  }: Pick<LinearLayout, "lanes"> & {
    readonly value: number;
    readonly matrices: MatrixRows;
  },
): ContextRounding {
  const taken = inputRounding(rounding, output);
  if (taken === "none") return "none";
  const isWhole = value % (4 * lanes) === 0 && matrices !== "all";
  return taken === "inKernel" && isWhole ? "prompts" : "all";
}

/** Whether a launch is to be bound that does all between the first projections and attention. */
export function projectsAtOnce(query: {
  readonly rounding: InputRounding;
  /** Whether one tensor holds the second projection. */
  readonly isWhole: boolean;
  /** Whether a workgroup has room for a normed query latent. */
  readonly fits: boolean;
  /** Elements of the cached latent. */
  readonly latent: number;
  readonly matrices: MatrixRows;
}): boolean {
  const { rounding, isWhole, fits, latent, matrices } = query;
  return rounding !== "apart" && isWhole && fits && latent % 4 === 0 && matrices !== "all";
}
