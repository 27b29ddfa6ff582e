/**
 * The launches of generated rows, alike for both kinds of attention: one over all splits, written
 * straight to the output where there is one split, else merged by a second launch; or left in splits.
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
 * @param groups How many groups the rows make up; 0 when each reads for itself.
 */
export type DecodeLaunch = (rows: number, maxSplits: number, groups?: number) => void;

/** What is done with a bound kernel, of whatever other uniform values. */
type SplitKernel = Pick<BoundKernel<"max_splits">, "set" | "record">;

interface SplitLaunchOptions {
  /** For errors. */
  readonly kernel: string;
  readonly out: Tensor;
  readonly partials: Tensor | undefined;
  readonly groups: Tensor | undefined;
  /** Undefined: the records of splits, even of one, are left in `partials` for who merges them. */
  readonly merge: Omit<MergeSplitsOptions, "partials"> | undefined;
  /** Binds the kernel that writes to `target`, for rows alone or for groups. */
  bind(
    target: Tensor,
    direct: boolean,
    groups: Tensor | undefined,
  ): { readonly bound: SplitKernel; readonly headTiles: number };
}

/** Binds the launches for rows alone and, where there is a tensor of groups, for groups. */
export function decodeLaunch(recorder: Recorder, options: SplitLaunchOptions): DecodeLaunch {
  const { kernel, out, partials, groups, merge } = options;
  const bindForm = (members: Tensor | undefined) => ({
    direct: merge && options.bind(out, true, members),
    split: partials && options.bind(partials, false, members),
  });
  const alone = bindForm(undefined);
  const shared = groups && bindForm(groups);
  const reduce = merge && partials && mergeSplits(recorder, { ...merge, partials });
  return (rows, maxSplits, groupCount = 0) => {
    const isDirect = maxSplits <= 1 && merge !== undefined;
    if (!isDirect && partials === undefined) {
      throw new KernelError(kernel, `${maxSplits} splits, but no partials`);
    }
    if (groupCount > 0 && shared === undefined) {
      throw new KernelError(kernel, `${groupCount} groups of rows, but no tensor of groups`);
    }
    const form = groupCount > 0 ? shared! : alone;
    const count = groupCount > 0 ? groupCount : rows;
    const { bound, headTiles } = (isDirect ? form.direct : form.split)!;
    if (isDirect) return bound.record(count, headTiles);
    bound.set("max_splits", maxSplits);
    bound.record(count, headTiles, maxSplits);
    reduce?.(rows, maxSplits);
  };
}
