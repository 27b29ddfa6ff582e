/**
 * Whether a workgroup has room for a staged form.
 *
 * @module
 */
import { type RowForm, STAGED_TOKENS } from "./tuning.ts";

/** Invocations of a workgroup at most. */
export const MOST_INVOCATIONS = 256;
/** WebGPU's default limit, of which something is left to the kernels themselves. */
const SHARED_BYTES = 16384 - 512;

type StagedForm = Pick<RowForm, "tokens" | "ownTokens" | "workgroup">;

/** Invocations of a workgroup with the same weight rows and activation rows of their own. */
export function stagedTokenLanes({
  tokens,
  ownTokens = STAGED_TOKENS,
}: Omit<StagedForm, "workgroup">): number {
  return tokens / ownTokens;
}

const stagedRowLanes = (form: StagedForm) => form.workgroup / stagedTokenLanes(form);

/**
 * Bytes of workgroup memory that a staged form needs: of the fewest columns staged at once, 16 in f32, of four
 * weight rows a lane and of the activation rows.
 */
export function leastStageBytes(form: StagedForm): number {
  return 64 * (4 * stagedRowLanes(form) + form.tokens + 1);
}

/** Whether a workgroup has room, in bytes, for a staged form where weight rows lie so many side by side. */
export function stagedFits(form: StagedForm, lanes: number, room = SHARED_BYTES): boolean {
  const isWhole = stagedRowLanes(form) % lanes === 0;
  return isWhole && form.workgroup <= MOST_INVOCATIONS && leastStageBytes(form) <= room;
}
