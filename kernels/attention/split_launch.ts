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
import type { AttentionTuning } from "../../src/gpu/tuning.ts";
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
  bind(target: Tensor, direct: boolean, groups: Tensor | undefined): BoundSplits;
  /** For launches over rows alone that have too few workgroups. */
  readonly few?:
    | {
        /** Workgroups from which there are enough. */
        readonly fill: number;
        /** The same kernel for rows alone, of which each workgroup has one head. */
        bind(target: Tensor, direct: boolean): BoundSplits;
      }
    | undefined;
}

interface BoundSplits {
  readonly bound: SplitKernel;
  /** Workgroups of a row or group, for each of its splits. */
  readonly headTiles: number;
}

/** Binds the launches for rows alone and, where there is a tensor of groups, for groups. */
export function decodeLaunch(recorder: Recorder, options: SplitLaunchOptions): DecodeLaunch {
  const { kernel, out, partials, groups, merge, few } = options;
  const bindForm = (bind: (target: Tensor, direct: boolean) => BoundSplits) => ({
    direct: merge && bind(out, true),
    split: partials && bind(partials, false),
  });
  const alone = bindForm((target, direct) => options.bind(target, direct, undefined));
  const spread = few && bindForm(few.bind);
  const shared = groups && bindForm((target, direct) => options.bind(target, direct, groups));
  const reduce = merge && partials && mergeSplits(recorder, { ...merge, partials });
  return (rows, maxSplits, groupCount = 0) => {
    const isDirect = maxSplits <= 1 && merge !== undefined;
    if (!isDirect && partials === undefined) {
      throw new KernelError(kernel, `${maxSplits} splits, but no partials`);
    }
    if (groupCount > 0 && shared === undefined) {
      throw new KernelError(kernel, `${groupCount} groups of rows, but no tensor of groups`);
    }
    const count = groupCount > 0 ? groupCount : rows;
    const of = (form: typeof alone) => (isDirect ? form.direct : form.split)!;
    const chosen = of(groupCount > 0 ? shared! : alone);
    const workgroups = count * chosen.headTiles * (isDirect ? 1 : maxSplits);
    const isSpread = few !== undefined && groupCount === 0 && workgroups < few.fill;
    const { bound, headTiles } = isSpread ? of(spread!) : chosen;
    if (isDirect) return bound.record(count, headTiles);
    bound.set("max_splits", maxSplits);
    bound.record(count, headTiles, maxSplits);
    reduce?.(rows, maxSplits);
  };
}

/**
 * What launches over rows alone take where they have too few workgroups; undefined where a tuning says
 * nothing of it, or has one head of a workgroup as it is.
 *
 * @param heads Those of a workgroup at most, were there no limit.
 * @param bindWith Binds the kernel with so many heads of a workgroup.
 */
export function fewOf(
  { rowHeads, fill = 0 }: Pick<AttentionTuning, "rowHeads" | "fill">,
  heads: number,
  bindWith: (heads: number, target: Tensor, direct: boolean) => BoundSplits,
): SplitLaunchOptions["few"] {
  if (fill === 0 || Math.min(heads, rowHeads) === 1) return undefined;
  return { fill, bind: (target, direct) => bindWith(1, target, direct) };
}
