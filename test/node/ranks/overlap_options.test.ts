import { describe, expect, test } from "vitest";
import { parseOptions } from "../../../src/node/options/option_parser.ts";
import { LAUNCH_OPTIONS } from "../../../src/node/options/options.ts";
import { overlapSentence, requireOverlap } from "../../../src/node/ranks/overlap_options.ts";

const launch = (...args: readonly string[]) =>
  parseOptions(LAUNCH_OPTIONS, ["--enable-two-batch-overlap", ...args]).values;

describe("--enable-two-batch-overlap", () => {
  test("is for several ranks", () => {
    expect(() => requireOverlap(launch())).toThrow(
      "Cannot use option --enable-two-batch-overlap: --tp-size is 1, and one rank exchanges nothing",
    );
    expect(() => requireOverlap(launch("--tp", "2", "--dp", "2"))).not.toThrow();
    const groups = ["--tp", "2", "--dp", "2", "--enable-dp-attention"];
    expect(() => requireOverlap(launch(...groups))).not.toThrow();
  });

  test("is told of", () => {
    expect(overlapSentence(launch("--tp", "2"))).toContain("cut in two");
    expect(overlapSentence(parseOptions(LAUNCH_OPTIONS, ["--tp", "2"]).values)).toBeUndefined();
  });
});
