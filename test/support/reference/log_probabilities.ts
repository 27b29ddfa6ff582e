/**
 * How far the engine's log-probabilities are from a reference's.
 *
 * @module
 */
import { logSoftmax } from "../engines/model_session.ts";

/** Of every token after every row; infinite where a number is none, or rows are missing. */
function differences(logits: readonly Float32Array[], want: readonly Float64Array[]): number[] {
  if (logits.length !== want.length) return [Number.POSITIVE_INFINITY];
  return logits.flatMap((row, i) =>
    [...logSoftmax(row)].map((x, token) => {
      const difference = Math.abs(x - want[i]![token]!);
      return Number.isNaN(difference) ? Number.POSITIVE_INFINITY : difference;
    }),
  );
}

export function largestDifference(
  logits: readonly Float32Array[],
  want: readonly Float64Array[],
): number {
  return differences(logits, want).reduce((most, value) => Math.max(most, value), 0);
}

export function medianDifference(
  logits: readonly Float32Array[],
  want: readonly Float64Array[],
): number {
  return differences(logits, want).sort((a, b) => a - b)[(want.length * want[0]!.length) >> 1]!;
}
