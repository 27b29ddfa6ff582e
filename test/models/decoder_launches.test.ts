import { describe, expect, test } from "vitest";
import { emulatedTiles, MATRIX_CONFIGS } from "../../kernels/linear/checks/check_matrix.ts";
import { ADAPTER_TUNINGS, PLAIN_TUNING } from "../../src/gpu/tuning.ts";
import {
  type DecoderForms,
  decoderForms,
  finalNormLaunches,
  headLaunches,
  normLaunches,
  unscaledRows,
} from "../../src/models/decoder_launches.ts";
import { namesIn, STEPS } from "../support/launch_names.ts";

const tuningOf = (name: string) => ADAPTER_TUNINGS.find((row) => row.name === name)!.tuning;
const GPU = tuningOf("NVIDIA");
const E4M3 = { format: "e4m3", group: "block" } as const;
const INT8 = { format: "int8", group: "row" } as const;

describe("decoderForms", () => {
  const forms = (
    layout: Parameters<typeof decoderForms>[0],
    given: Partial<Parameters<typeof decoderForms>[1]> = {},
  ) => decoderForms(layout, { rounding: undefined, ranks: 1, ...given });
  const all: DecoderForms = {
    takesCodes: false,
    findsBest: true,
    leavesScale: true,
    foldsNorms: true,
    roundsApart: false,
    matrices: "none",
  };
  const tiles = (decode: boolean) => ({ ...emulatedTiles(MATRIX_CONFIGS["f32 8x8x8"]), decode });

  test.each<[string, DecoderForms, Partial<DecoderForms>]>([
    ["a GPU", forms({ tuning: GPU }), {}],
    ["llvmpipe", forms({ tuning: tuningOf("llvmpipe") }), { findsBest: false }],
    ["no tuning", forms({ tuning: PLAIN_TUNING }), { findsBest: false, foldsNorms: false }],
    [
      "several ranks",
      forms({ tuning: GPU }, { ranks: 2 }),
      { findsBest: false, foldsNorms: false },
    ],
    ["rounding by norms", forms({ tuning: GPU }, { rounding: E4M3 }), {}],
    [
      "rounding apart",
      forms({ tuning: GPU }, { rounding: INT8 }),
      { roundsApart: true, leavesScale: false, foldsNorms: false },
    ],
    [
      "codes",
      forms({ tuning: GPU, packedDots: true }, { rounding: INT8 }),
      { takesCodes: true, roundsApart: true, leavesScale: false, foldsNorms: false },
    ],
    [
      "codes on several ranks",
      forms({ tuning: GPU, packedDots: true }, { rounding: INT8, ranks: 2 }),
      { findsBest: false, roundsApart: true, leavesScale: false, foldsNorms: false },
    ],
    [
      "products in f16",
      forms({ tuning: GPU, halfProducts: true }),
      { leavesScale: false, foldsNorms: false },
    ],
    ["prompts by matrices", forms({ tuning: GPU, matrix: tiles(false) }), { matrices: "prompts" }],
    [
      "all by matrices",
      forms({ tuning: GPU, matrix: tiles(true) }),
      { matrices: "all", findsBest: false, leavesScale: false, foldsNorms: false },
    ],
  ])("%s", (_, given, differences) => {
    expect(given).toEqual({ ...all, ...differences });
  });

  test("rows that matrices multiply are scaled by their norms", () => {
    expect(unscaledRows(all, STEPS.mixed)).toBe(41);
    expect(unscaledRows({ ...all, matrices: "prompts" }, STEPS.mixed)).toBe(1);
    expect(unscaledRows({ ...all, leavesScale: false }, STEPS.mixed)).toBe(0);
  });
});

const isFew = ({ rows }: { readonly rows: number }) => rows < 8;

test("a norm is launched where the block before has not done its work, and what rounds its rows", () => {
  const together = normLaunches({ roundsApart: false }, isFew);
  const apart = normLaunches({ roundsApart: true }, isFew);
  expect([STEPS.one, STEPS.many].map((step) => namesIn(together, step))).toEqual([[], ["norm"]]);
  expect([STEPS.one, STEPS.many].map((step) => namesIn(apart, step))).toEqual([
    [],
    ["norm", "round"],
  ]);
});

test("the last norm adds what the last block has not", () => {
  const list = finalNormLaunches(isFew);
  expect(namesIn(list, STEPS.one)).toEqual(["finalNorm"]);
  expect(namesIn(list, STEPS.many)).toEqual(["addAndFinalNorm"]);
});

test("the output head finds the best logits in steps that want no others", () => {
  const onlyBest = { ...STEPS.one, onlyBest: true };
  const [finds, writes] = [{ findsBest: true }, { findsBest: false }].map(headLaunches);
  expect(namesIn(finds!, STEPS.one)).toEqual(["logits"]);
  expect(namesIn(finds!, onlyBest)).toEqual(["findBest"]);
  expect(writes!.map(({ name }) => name)).toEqual(["logits"]);
});
