/**
 * The option that has ranks compute while they exchange.
 *
 * @module
 */
import { OptionError, type OptionTable, type OptionValues } from "../options/option_parser.ts";
import { DEVICE_OPTIONS } from "./device_options.ts";

export const OVERLAP_OPTIONS = {
  twoBatchOverlap: {
    flags: ["--enable-two-batch-overlap"],
    kind: "flag",
    default: false,
    help:
      "cut steps with several sequences in two, so that ranks compute one part while they exchange rows of " +
      "the other; answers stay the same",
    group: DEVICE_OPTIONS.tpSize.group,
  },
} as const satisfies OptionTable;

interface OverlapOptions extends OptionValues<typeof OVERLAP_OPTIONS> {
  readonly tpSize: number;
}

/** @throws {OptionError} naming what there is nothing to overlap with. */
export function requireOverlap({ twoBatchOverlap, tpSize }: OverlapOptions): void {
  if (!twoBatchOverlap || tpSize > 1) return;
  const [flag] = OVERLAP_OPTIONS.twoBatchOverlap.flags;
  throw new OptionError(
    `Cannot use option ${flag}: ${DEVICE_OPTIONS.tpSize.flags[0]} is 1, and one rank exchanges nothing`,
  );
}

/** What ranks do by it; undefined without it. */
export function overlapSentence({
  twoBatchOverlap,
}: Pick<OverlapOptions, "twoBatchOverlap">): string | undefined {
  if (!twoBatchOverlap) return undefined;
  return (
    "Two-batch overlap: steps with several sequences are cut in two, and ranks compute one part while " +
    "they exchange rows of the other"
  );
}
