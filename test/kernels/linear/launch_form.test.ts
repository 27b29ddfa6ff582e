/** Which forms of a tuning a launch over weights may take. */
import { describe, expect, test } from "vitest";
import {
  type LaunchForm,
  launchForms,
  rowLanes,
  rowsOf,
} from "../../../kernels/linear/weights/launch_form.ts";
import { tileForms, tileSizes } from "../../../kernels/moe/experts/expert_tiles.ts";
import { normedShape, partOf } from "../../../kernels/norm/normed_rows.ts";
import { DeviceMemory } from "../../../src/gpu/memory.ts";
import { formOf } from "../../../src/gpu/row_forms.ts";
import { PAIR_TILE, type RowForm, type Tuning } from "../../../src/gpu/tuning.ts";

const FORMS: readonly RowForm[] = [
  { tokens: 1, split: 1, workgroup: 8, cost: 1 },
  { tokens: 4, split: 1, workgroup: 8, cost: 2 },
  { tokens: 16, split: 1, workgroup: 64, staged: true, cost: 3 },
  { tokens: 32, split: 1, workgroup: 128, staged: true, cost: 5 },
];
const tuning: Tuning = { lanes: 8, rowForms: FORMS };
const weight = { dtype: "bf16", lanes: 8, tuning } as const;
const tokensOf = (forms: readonly RowForm[]) => forms.map(({ tokens }) => tokens);

describe("staged forms", () => {
  test("of a tuning are taken as they are", () => {
    expect(launchForms(weight)).toEqual(FORMS);
    expect(launchForms(weight).map(rowLanes)).toEqual([8, 8, 16, 16]);
    const few = FORMS.map((form) => ({ ...form, ...(form.staged && { ownTokens: 2 }) }));
    expect(launchForms(weight, {}, few).map(rowLanes)).toEqual([8, 8, 8, 8]);
  });

  test("are none of a kernel that has none", () => {
    expect(tokensOf(launchForms(weight, { stages: false }))).toEqual([1, 4]);
  });

  test("have whole runs of lanes, and are left out where a workgroup has no room for them", () => {
    const many = { tokens: 64, split: 1, workgroup: 256, staged: true, cost: 9 };
    const wide = launchForms({ ...weight, lanes: 32 }, {}, [...FORMS, many]);
    expect(tokensOf(wide)).toEqual([1, 4, 16, 32]);
    expect(wide.map(({ workgroup }) => workgroup)).toEqual([32, 32, 128, 256]);
  });

  test("have more rows an invocation where a workgroup has no room for few", () => {
    const few = FORMS.map((form) => ({ ...form, ...(form.staged && { ownTokens: 2 }) }));
    const staging = { bytes: 2 ** 15, ownBytes: () => 0 };
    const fitted = launchForms(weight, { staging, rowLanes: 64 }, few).filter((one) => one.staged);
    expect(fitted).toEqual([{ tokens: 16, split: 1, workgroup: 256, staged: true, cost: 3 }]);
  });

  test("are of half as many rows where results leave no room for all, or left out", () => {
    // Results of 128 outputs a row.
    const ownBytes = (form: LaunchForm) => form.tokens * 4 * 128;
    const formsIn = (bytes: number) =>
      launchForms(weight, { staging: { bytes, ownBytes }, rowLanes: 32 });
    expect(tokensOf(formsIn(2 ** 15))).toEqual([1, 4, 16, 32]);
    expect(formsIn(2 ** 15).map(rowLanes)).toEqual([32, 32, 32, 32]);
    expect(tokensOf(formsIn(20_000))).toEqual([1, 4, 16]);
    expect(tokensOf(formsIn(2 ** 14))).toEqual([1, 4]);
  });
});

test("where an adapter wants many invocations, forms are those that rows fill by half", () => {
  const wide = { ...weight, tuning: { ...tuning, fill: 4096 } };
  const taken = [1, 2, 3, 8, 16, 17].map((mostRows) => tokensOf(launchForms(wide, { mostRows })));
  expect(taken).toEqual([[1], [1], [1, 4], [1, 4], [1, 4, 16], [1, 4, 16, 32]]);
});

test.each([
  [1, [1]],
  [3, [1, 4]],
  [5, [1, 4, 16]],
  [16, [1, 4, 16]],
  [17, [1, 4, 16, 32]],
])("launches of %i rows at most have no form that none of them takes", (mostRows, tokens) => {
  expect(tokensOf(launchForms(weight, { mostRows }))).toEqual(tokens);
});

test("a tensor has room for as many rows from any of their columns on", () => {
  const shape = normedShape(7168, true);
  const limits = { maxBufferSize: 2 ** 30, maxStorageBufferBindingSize: 2 ** 30 };
  const tensor = new DeviceMemory(limits).allocate("activations", 4 * 8 * shape.stride, "rows");
  for (const column of [0, shape.rounded!]) {
    const { x, xStride } = partOf({ ...shape, tensor }, column, 1e-6);
    expect(rowsOf(x, xStride)).toBe(8);
  }
});

describe("sizes of tiles", () => {
  const matrix = { weights: weight, stages: true };
  test.each([
    [2, [4]],
    [5, [4, 16]],
    [40, [4, 16, 32]],
  ])("are those that experts of %i pairs at most take", (mostPairs, tokens) => {
    const sizes = tileSizes([matrix, matrix], mostPairs);
    expect(sizes.map((size) => size.tokens)).toEqual(tokens);
    expect(formOf(sizes, 1).tokens).toBe(PAIR_TILE);
  });

  test("are those that both halves of an expert have forms for", () => {
    const coded = { weights: weight, stages: false };
    const [least] = tileSizes([matrix, coded], 40);
    expect(tileSizes([matrix, coded], 40)).toEqual([least]);
    expect(tileSizes([coded, matrix], 40)).toEqual([least]);
    expect(least).toEqual({ tokens: PAIR_TILE, cost: 2 });
  });

  test("cost what a tuning without a form of four rows takes for four", () => {
    const rowForms = [FORMS[0]!, { ...FORMS[1]!, tokens: 2, cost: 1.5 }];
    const weights = { ...weight, tuning: { ...tuning, rowForms } };
    expect(tileSizes([{ weights, stages: true }], 40)).toEqual([{ tokens: PAIR_TILE, cost: 3 }]);
  });

  test("begin with as many pairs as the tuning says", () => {
    const weights = { ...weight, tuning: { ...tuning, pairTile: 2 } };
    const sizes = tileSizes([{ weights, stages: true }], 40);
    expect(sizes.map(({ tokens }) => tokens)).toEqual([2, 16, 32]);
    // Of two passes of the form of one row.
    expect(sizes[0]!.cost).toBe(2);
    const { byTile } = tileForms(weights, { tileSizes: [2] });
    expect(byTile).toMatchObject([{ tokens: 2, split: 1, workgroup: 8 }]);
  });
});
