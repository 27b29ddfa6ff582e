/**
 * The launches of generated rows, alike for both kinds of attention: one over all splits, written
 * straight to the output where there is one split, else merged by a second launch or by the caller.
 *
 * @module
 */
import { KernelError } from "../../src/errors.ts";
import type { BoundKernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import { type MergeSplitsOptions, mergeSplits } from "./merge_splits.ts";

/** Rows of one sequence that share the reads of a workgroup, at most. */
export const SHARED_ROWS = 4;

/**
 * Records the attention of `rows` rows, of which the longest has `maxSplits` splits.
 *
 * @param groups How many groups the rows make up; 0 when each stands alone, which reads no group.
 * @param merges Whether rows are finished; else the records of their splits, or of the one they have,
 * are left as `mergeSplits` reads them. Default true.
 */
export type DecodeLaunch = (
  rows: number,
  maxSplits: number,
  groups?: number,
  merges?: boolean,
) => void;

/** What is done with a bound kernel, of whatever other uniform values. */
type SplitKernel = Pick<BoundKernel<"max_splits">, "set" | "record">;

interface SplitLaunchOptions {
  /** For errors. */
  readonly kernel: string;
  readonly out: Tensor;
  readonly partials: Tensor | undefined;
  readonly groups: Tensor | undefined;
  readonly merge: Omit<MergeSplitsOptions, "partials">;
  /** Binds the kernel that writes to `target`, for rows alone or for groups. */
  bind(
    target: Tensor,
    direct: boolean,
    groups: Tensor | undefined,
  ): { readonly bound: SplitKernel; readonly headTiles: number };
}

/** Binds the launches for rows alone and, where there is a tensor of groups, for groups. */
export function decodeLaunch(recorder: Recorder, options: SplitLaunchOptions): DecodeLaunch {
  const { kernel, out, partials, groups } = options;
  const bindForm = (members: Tensor | undefined) => ({
    direct: options.bind(out, true, members),
    split: partials && options.bind(partials, false, members),
  });
  const alone = bindForm(undefined);
  const shared = groups && bindForm(groups);
  const reduce = partials && mergeSplits(recorder, { ...options.merge, partials });
  return (rows, maxSplits, groupCount = 0, merges = true) => {
    if ((maxSplits > 1 || !merges) && partials === undefined) {
      throw new KernelError(kernel, `${maxSplits} splits, but no partials`);
    }
    if (groupCount > 0 && shared === undefined) {
      throw new KernelError(kernel, `${groupCount} groups of rows, but no tensor of groups`);
    }
    const form = groupCount > 0 ? shared! : alone;
    const count = groupCount > 0 ? groupCount : rows;
    if (maxSplits <= 1 && merges) return form.direct.bound.record(count, form.direct.headTiles);
    const { bound, headTiles } = form.split!;
    bound.set("max_splits", maxSplits);
    bound.record(count, headTiles, maxSplits);
    if (merges) reduce!(rows, maxSplits);
  };
}
