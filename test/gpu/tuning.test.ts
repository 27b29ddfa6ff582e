import { describe, expect, test } from "vitest";
import mlaProject from "../../kernels/cache/mla_project.check.ts";
import type { KernelCheck } from "../../kernels/check.ts";
import { formTuning } from "../../kernels/linear/checks/check_forms.ts";
import { CHECK_LANES } from "../../kernels/linear/checks/check_weights.ts";
import linearBest from "../../kernels/linear/checks/linear_best.check.ts";
import linearCodes from "../../kernels/linear/checks/linear_codes.check.ts";
import linearForms from "../../kernels/linear/checks/linear_forms.check.ts";
import roundedOutputs from "../../kernels/linear/checks/rounded_outputs.check.ts";
import scaledRows from "../../kernels/linear/checks/scaled_rows.check.ts";
import gateUp from "../../kernels/linear/gate_up.check.ts";
import mergingLinear from "../../kernels/linear/merging_linear.check.ts";
import residualLinear from "../../kernels/linear/residual_linear.check.ts";
import { formInUse, rowLanes } from "../../kernels/linear/weights/launch_form.ts";
import expertCombine from "../../kernels/moe/experts/expert_combine.check.ts";
import expertDown from "../../kernels/moe/experts/expert_down.check.ts";
import expertGateUp from "../../kernels/moe/experts/expert_gate_up.check.ts";
import { requireTuning } from "../../src/gpu/require_tuning.ts";
import { formOf, formsFor, withoutStaged } from "../../src/gpu/row_forms.ts";
import {
  ADAPTER_TUNINGS,
  DEFAULT_TUNING,
  PAIR_TILE,
  PLAIN_TUNING,
  type RowForm,
  type Tuning,
  tuningFor,
} from "../../src/gpu/tuning.ts";

/** Of matrices from a router's to an output head's. */
const OUTPUTS = [256, 2048, 7168, 131_072];
const ROWS_PER_LANE = 4;

const UNKNOWN = { vendor: "", architecture: "", device: "", description: "" };
const named = (name: string) => ADAPTER_TUNINGS.find((row) => row.name === name)!.tuning;
const every: readonly (readonly [string, Tuning])[] = [
  ["plain", PLAIN_TUNING],
  ["default", DEFAULT_TUNING],
  ...ADAPTER_TUNINGS.map(({ name, tuning }) => [name, tuning] as const),
];

type Wanted = (form: RowForm) => boolean;
const isUnstaged: Wanted = ({ staged }) => staged !== true;
const isOfFew: Wanted = (form) => isUnstaged(form) && form.tokens <= 4;
const isOneRow: Wanted = ({ tokens }) => tokens === 1;
const isOfPairs: Wanted = ({ tokens, staged }) => tokens <= PAIR_TILE || !!staged;

/** The check of every kernel over weights, which runs every tuning, and the forms that it has. */
const formChecks: readonly (readonly [Pick<KernelCheck<never>, "name" | "tunings">, Wanted])[] = [
  [linearForms, () => true],
  [gateUp, () => true],
  [linearBest, isUnstaged],
  [linearCodes, isUnstaged],
  [expertGateUp, isOfPairs],
  [expertDown, isOfPairs],
  [expertCombine, isOneRow],
  [mergingLinear, isOfFew],
  [mlaProject, isOfFew],
  [residualLinear, isUnstaged],
  [roundedOutputs, isUnstaged],
  [scaledRows, () => true],
];

describe.each(every)("the tuning of %s", (_, tuning) => {
  const { lanes, rowForms, dtypeForms = {} } = tuning;
  const forms = [rowForms, ...Object.values(dtypeForms)].flat();

  test.each(formChecks)("has only forms that the check $name runs", ({ tunings }, wanted) => {
    for (const form of forms.filter(wanted)) {
      expect(tunings).toContainEqual(expect.objectContaining(formTuning(form)));
    }
  });

  test("has the lanes that the kernel checks run", () => {
    expect(lanes).toBe(CHECK_LANES);
    expect(linearForms.cases[0]!.lanes).toBe(lanes);
  });

  test("is one that may be stored", () => {
    expect(requireTuning(JSON.parse(JSON.stringify(tuning)))).toEqual(tuning);
  });

  test("is without its staged forms what it was before", () => {
    const kept = withoutStaged(tuning);
    expect(requireTuning(kept)).toEqual(kept);
    expect(kept.rowForms).toEqual(rowForms.filter(({ staged }) => staged !== true));
  });

  test("has no form that no number of rows takes, of any matrix", () => {
    for (const dtype of ["f16", ...Object.keys(dtypeForms)]) {
      const list = formsFor(tuning, dtype);
      const taken = OUTPUTS.flatMap((outputs) => {
        const forms = list.map((form) => {
          const width = Math.ceil(outputs / (ROWS_PER_LANE * rowLanes(form)));
          return formInUse({ tuning, columns: 8192 }, form, width);
        });
        return Array.from({ length: 256 }, (_, i) => formOf(forms, i + 1).tokens);
      });
      expect(new Set(taken)).toEqual(new Set(list.map(({ tokens }) => tokens)));
    }
  });
});

test.each([
  [{ ...UNKNOWN, vendor: "mesa", description: "llvmpipe: Mesa 25.0.7 (LLVM 15.0.6)" }, "llvmpipe"],
  [{ ...UNKNOWN, vendor: "google", architecture: "swiftshader" }, "SwiftShader"],
  [{ ...UNKNOWN, vendor: "nvidia", architecture: "hopper" }, "NVIDIA"],
  [{ ...UNKNOWN, vendor: "apple", architecture: "metal-3" }, "Apple"],
  [{ ...UNKNOWN, vendor: "intel", architecture: "xe-2lpg" }, "Intel"],
  [{ ...UNKNOWN, vendor: "qualcomm", architecture: "adreno-7xx" }, "Qualcomm"],
  [{ ...UNKNOWN, vendor: "arm", architecture: "valhall" }, "ARM"],
])("an adapter is known by its words: %o", (info, name) => {
  expect(tuningFor(info)).toBe(named(name));
});

test("adapters that are a CPU have no staged forms, all others have", () => {
  const staging = ADAPTER_TUNINGS.filter(({ tuning }) =>
    [tuning.rowForms, ...Object.values(tuning.dtypeForms ?? {})]
      .flat()
      .some(({ staged }) => staged),
  );
  const names = staging.map(({ name }) => name);
  expect(names).toEqual(["NVIDIA", "AMD", "Apple", "Intel", "Qualcomm", "ARM"]);
});

test("words are whole ones, and other adapters have the default", () => {
  expect(tuningFor({ ...UNKNOWN, description: "charming camdriver" })).toBe(DEFAULT_TUNING);
  expect(tuningFor(UNKNOWN)).toBe(DEFAULT_TUNING);
});

describe("the form of a number of rows", () => {
  const forms = [
    { tokens: 1, cost: 1 },
    { tokens: 4, cost: 2 },
    { tokens: 8, cost: 3 },
  ];
  test.each([
    [1, 1],
    [2, 1],
    [3, 4],
    [4, 4],
    [5, 8],
    [9, 4],
    [13, 8],
    [64, 8],
  ])("%i rows are soonest done %i at a time", (rows, tokens) => {
    expect(formOf(forms, rows).tokens).toBe(tokens);
  });
});

test("a form whose workgroups are few takes as long as if it kept the adapter busy", () => {
  const forms = [
    { tokens: 1, split: 16, workgroup: 128, cost: 1 },
    { tokens: 8, split: 1, workgroup: 64, cost: 2 },
  ];
  const of = (outputs: number, rows: number, columns = 4096) =>
    formOf(
      forms.map((form) => {
        const width = Math.ceil(outputs / (ROWS_PER_LANE * rowLanes(form)));
        const tuning = { lanes: 8, rowForms: forms, fill: 16_384 };
        return formInUse({ tuning, columns }, form, width);
      }),
      rows,
    ).tokens;
  expect([8, 32, 256].map((rows) => of(256, rows))).toEqual([1, 1, 1]);
  expect([8, 32, 256].map((rows) => of(7168, rows))).toEqual([1, 8, 8]);
  expect([2, 8, 256].map((rows) => of(131_072, rows))).toEqual([1, 8, 8]);
  // Two groups of columns keep two of sixteen invocations busy.
  expect([8, 32, 256].map((rows) => of(7168, rows, 256))).toEqual([8, 8, 8]);
  expect([8, 32, 256].map((rows) => of(256, rows, 256))).toEqual([1, 1, 8]);
});

describe("a tuning from outside", () => {
  const form = { tokens: 1, split: 1, workgroup: 8, cost: 1 };
  const good = { lanes: 8, rowForms: [form] };
  const staged = { tokens: 16, split: 1, workgroup: 64, staged: true, cost: 3 };
  const staging = (lanes: number, other: object) => ({
    lanes,
    rowForms: [form, { ...staged, ...other }],
  });

  const attention = DEFAULT_TUNING.attention!;

  test("may have staged forms", () => {
    expect(requireTuning(staging(8, {})).rowForms[1]).toEqual(staged);
    expect(requireTuning(staging(8, { tokens: 4, staged: false })).rowForms[1]).toEqual({
      ...{ tokens: 4, split: 1, workgroup: 64, cost: 3 },
    });
  });

  test("may say nothing of the order of words, as those stored before did", () => {
    expect(requireTuning(good)).toEqual(good);
    const ordered = { ...good, rowsPerLane: 2, scaleOrder: "byRun" };
    expect(requireTuning(ordered)).toEqual(ordered);
  });

  test.each([
    [[], "tuning must be an object"],
    [{ ...good, colour: "blue" }, 'tuning has no field "colour"'],
    [{ ...good, lanes: 7 }, "lanes must be one of 8, 16, 32, got 7"],
    [{ ...good, rowsPerLane: 3 }, "rowsPerLane must be one of 1, 2, 4, got 3"],
    [{ ...good, scaleOrder: "byRow" }, 'scaleOrder must be one of byGroup, byRun, got "byRow"'],
    [{ lanes: 8 }, "rowForms must be a list of forms"],
    [{ ...good, rowForms: [] }, "rowForms must be a list of forms"],
    [{ ...good, rowForms: [{ ...form, tokens: 3 }] }, "tokens must be one of 1, 2, 4, 8, got 3"],
    [{ ...good, rowForms: [{ ...form, split: 64 }] }, "split must be one of"],
    [{ ...good, rowForms: [{ ...form, workgroup: "8" }] }, "workgroup must be one of 8, 16, 32"],
    [{ ...good, rowForms: [{ ...form, cost: 0 }] }, "cost must be a number above 0, got 0"],
    [{ ...good, rowForms: [{ ...form, tokens: 2 }] }, "must start with 1 token"],
    [{ ...good, rowForms: [form, form] }, "ascend in tokens"],
    [{ ...good, rowForms: [{ ...form, speed: 1 }] }, 'rowForms has no field "speed"'],
    [{ lanes: 32, rowForms: [{ ...form, split: 16 }] }, "split 16 with 32 lanes is over 256"],
    [staging(8, { staged: 1 }), "rowForms: staged must be true or false"],
    [staging(8, { tokens: 8 }), "tokens of a staged form must be one of 16, 32, 64, got 8"],
    [staging(8, { staged: false }), "tokens must be one of 1, 2, 4, 8, got 16"],
    [staging(8, { split: 2 }), "rowForms: split must be 1 in a staged form, got 2"],
    [staging(8, { ownTokens: 3 }), "rowForms: ownTokens must be one of 2, 4, got 3"],
    [{ ...good, rowForms: [{ ...form, ownTokens: 2 }] }, "ownTokens is of staged forms alone"],
    [{ ...good, pairTile: 3 }, "pairTile must be one of 2, 4, got 3"],
    [staging(32, {}), "a workgroup of 64 cannot stage 16 tokens with 32 lanes"],
    [staging(8, { workgroup: 256 }), "a workgroup of 256 cannot stage 16 tokens with 8 lanes"],
    [staging(8, { tokens: 64, workgroup: 8 }), "a workgroup of 8 cannot stage 64 tokens"],
    [{ ...good, rowForms: [{ ...staged, tokens: 16 }] }, "must start with 1 token"],
    [{ ...good, dtypeForms: { fp9: [form] } }, 'dtypeForms has no field "fp9"'],
    [{ ...good, dtypeForms: { fp8: [] } }, "dtypeForms: fp8 must be a list"],
    [{ ...good, foldsNorms: 1 }, "foldsNorms must be true or false"],
    [{ ...good, findsBest: "yes" }, "findsBest must be true or false"],
    [{ ...good, sequential: 1 }, "sequential must be true or false"],
    [{ ...good, attention: 8 }, "attention must be an object"],
    [{ ...good, attention: { ...attention, lane: 8 } }, 'attention has no field "lane"'],
    [
      { ...good, attention: { ...attention, promptHeads: 4 } },
      "promptHeads must be one of 1, 2, got 4",
    ],
    [{ ...good, attention: { ...attention, subgroups: 1 } }, "subgroups must be true or false"],
    [{ ...good, attention: { ...attention, sharesReads: 1 } }, "sharesReads must be true or false"],
    [{ ...good, attention: { ...attention, fill: -1 } }, "attention: fill"],
  ])("%o is refused", (value, problem) => {
    expect(() => requireTuning(value)).toThrow(problem);
  });
});
