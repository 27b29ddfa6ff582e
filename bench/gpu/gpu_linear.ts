/**
 * Linears of one row, of few and of a prompt's many, in every form that the adapter's tuning has
 * beside the plain ones.
 *
 * @module
 */
import { afterAll, describe, expect, test } from "vitest";
import { linear } from "../../kernels/linear/linear.ts";
import { storedBytes } from "../../kernels/linear/weights/weight_cost.ts";
import { codedStride } from "../../kernels/norm/quantize_codes.ts";
import { formsFor } from "../../src/gpu/row_forms.ts";
import { allocateTensor, type Tensor } from "../../src/gpu/tensor.ts";
import { DEFAULT_TUNING, PLAIN_TUNING, type RowForm, tuningFor } from "../../src/gpu/tuning.ts";
import { device } from "../../test/support/devices/gpu.ts";
import {
  bounds,
  type Candidate,
  compare,
  expectNear,
  floatsOf,
  Report,
  SameBits,
  scaled,
  TIMEOUT,
  WORK_HEADER,
  workCells,
} from "./gpu_bench.ts";
import { type BenchedClass, CODES, FMA128, MATRIX_CLASSES, VECTOR_CLASSES } from "./gpu_classes.ts";
import { type MadeTensor, makeTensor, WORDS } from "./gpu_data.ts";
import { type BenchedDtype, type MadeWeight, makeWeight } from "./gpu_weights.ts";

/** Weights, and how their inputs come. */
interface Kind {
  readonly name: string;
  readonly dtype: BenchedDtype;
  /** Whether inputs are int8 codes (numeric class int8). */
  readonly coded: boolean;
}

const FP8: Kind = { name: "fp8", dtype: "fp8", coded: false };
const INT8_CODES: Kind = { name: "int8 codes", dtype: "int8", coded: true };
const KINDS: readonly Kind[] = [
  FP8,
  { name: "bf16", dtype: "bf16", coded: false },
  { name: "int8", dtype: "int8", coded: false },
  INT8_CODES,
  { name: "int4", dtype: "int4", coded: false },
];

/** Outputs and inputs. */
type Shape = readonly [outputs: number, columns: number];

/** Of the projections of the 671B model. */
const ONE_ROW_SHAPES: readonly Shape[] = scaled(
  [
    [7168, 2048],
    [7168, 18432],
    [2048, 7168],
  ],
  [
    [1024, 512],
    [512, 1024],
  ],
);
const ROWS_SHAPE: Shape = scaled([7168, 2048], [512, 512]);
const ROWS = scaled([2, 4, 8, 16, 64, 256, 1024, 4096], [4, 64]);
/** From so many rows on, forms of fewer tokens are not worth their time. */
const PROMPT_ROWS = 256;
const PROMPT_TOKENS = 4;
/** Weights are read in turns, so that no cache holds them all, up to this many rows. */
const FEW_ROWS = 16;
const TURNS_BYTES = scaled(256 * 2 ** 20, 0);
const MOST_COPIES = 8;

/** Ways to share few rows out, beside those of the tables: what a row of the table is chosen from. */
const SHARES = [
  { split: 8, workgroup: 64 },
  { split: 8, workgroup: 256 },
  { split: 16, workgroup: 128 },
  { split: 16, workgroup: 256 },
  { split: 32, workgroup: 256 },
] as const;
const FEW_TOKENS = [1, 2, 4, 8] as const;

/** From so many rows on, products of matrices are tried. */
const MATRIX_ROWS = 8;

/** One launch: the tensors that all candidates bind. */
interface LinearCase {
  readonly kind: Kind;
  readonly copies: readonly MadeWeight[];
  readonly x: MadeTensor;
  readonly xStride: number;
  readonly out: Tensor;
  readonly rows: number;
}

/**
 * The forms of the adapter's tuning, those that GPUs have and the plain ones, in each numeric class;
 * then products of matrices.
 */
function candidatesFor(linearCase: LinearCase): Candidate[] {
  const { kind, rows } = linearCase;
  const tunings = [tuningFor(device.adapterInfo), DEFAULT_TUNING, PLAIN_TUNING];
  const forms = tunings
    .flatMap((tuning) => formsFor(tuning, kind.dtype))
    .filter(({ tokens }) => tokens <= rows && (rows < PROMPT_ROWS || tokens >= PROMPT_TOKENS))
    .filter(({ staged = false }) => !(staged && kind.coded));
  const byName = new Map(forms.map((form) => [formName(form), form]));
  const classes = kind === FP8 ? VECTOR_CLASSES : scaled(VECTOR_CLASSES, [FMA128]);
  const inForms = (kind.coded ? [CODES] : classes).flatMap((numericClass) =>
    Array.from(byName, ([name, form]) =>
      candidateOf(linearCase, numericClass, `${numericClass.name}, ${name}`, [form]),
    ),
  );
  const hasMatrices = !kind.coded && rows >= MATRIX_ROWS;
  const products = hasMatrices ? MATRIX_CLASSES : [];
  return [...inForms, ...products.map((one) => candidateOf(linearCase, one, one.name))];
}

/** @param forms Default: those of the tuning of the weight, where its class has forms. */
function candidateOf(
  { kind, copies, x, xStride, out, rows }: LinearCase,
  { name: numericClass, layout }: BenchedClass,
  name: string,
  forms?: readonly RowForm[],
): Candidate {
  return {
    ...{ name, numericClass },
    bind: (recorder) =>
      copies.map(({ weight }) => {
        const launch = linear(recorder, {
          ...{ x: x.tensor, xStride, coded: kind.coded, weight: { ...weight, ...layout } },
          ...{ out, outStride: weight.rows, ...(forms && { forms }) },
        });
        return () => launch(rows);
      }),
  };
}

/** All that a form says but what it is expected to cost. */
function formName({ cost: _, ...form }: RowForm): string {
  return Object.entries(form)
    .map(([name, value]) => `${name} ${value}`)
    .join(", ");
}

async function makeInput({ coded }: Kind, rows: number, columns: number) {
  if (!coded) {
    const x = await makeTensor("x", rows * columns, { kind: WORDS.f32 });
    return { x, xStride: columns };
  }
  const xStride = codedStride(columns);
  const places = { period: xStride, first: Math.ceil(columns / 128) * 32, end: xStride };
  const fills = [{ kind: WORDS.any }, { kind: WORDS.scale, places }];
  return { x: await makeTensor("codes of x", rows * xStride, ...fills), xStride };
}

/** A row of the input as numbers. */
function inputRow({ kind, x, xStride }: LinearCase, row: number, columns: number): Float64Array {
  const first = row * xStride;
  if (!kind.coded) return Float64Array.from({ length: columns }, (_, k) => x.float(first + k));
  const scales = first + Math.ceil(columns / 128) * 32;
  return Float64Array.from({ length: columns }, (_, k) => {
    const word = x.word(first + Math.floor(k / 4));
    return ((word << (24 - 8 * (k % 4))) >> 24) * x.float(scales + Math.floor(k / 128));
  });
}

/** Some outputs of the first row, the last and one between, against f64; all of them as bits. */
function checkOf(linearCase: LinearCase): (candidate: Candidate) => Promise<void> {
  const { copies, out, rows } = linearCase;
  const { weight, rows: values } = copies[0]!;
  const { rows: outputs, columns } = weight;
  const sampled = [...new Set([0, Math.floor(rows / 2), rows - 1])];
  const places = [0, 1, 7, outputs >> 2, outputs >> 1, outputs - 9, outputs - 1];
  const wanted = sampled.map((row) => {
    const x = inputRow(linearCase, row, columns);
    return places.map((place) => values.dot(place, x));
  });
  const sameBits = new SameBits();
  const classes = [CODES, ...VECTOR_CLASSES, ...MATRIX_CLASSES];
  const tolerances = new Map(classes.map(({ name, tolerance }) => [name, tolerance]));
  return async (candidate) => {
    const got = new Float32Array(sampled.length * outputs);
    const tolerance = tolerances.get(candidate.numericClass)!;
    for (const [i, row] of sampled.entries()) {
      const own = await floatsOf(out, row * outputs, outputs);
      got.set(own, i * outputs);
      const where = `${candidate.name}, row ${row} of ${rows}`;
      expectNear(
        places.map((place) => own[place]!),
        wanted[i]!,
        { tolerance, where },
      );
    }
    expect(got.some(Number.isNaN), `${candidate.name}: outputs that no kernel wrote`).toBe(false);
    sameBits.expect(candidate, got);
  };
}

async function measureRows(
  report: Report,
  kind: Kind,
  [outputs, columns]: Shape,
  counts: readonly number[],
  candidates = candidatesFor,
): Promise<void> {
  const known = await bounds();
  const { dtype } = kind;
  const size = { dtype, rows: outputs, columns };
  const bytes = storedBytes({ ...known.layout, ...size });
  const copies = Math.min(Math.max(Math.ceil(TURNS_BYTES / bytes), 1), MOST_COPIES);
  const weights: MadeWeight[] = [];
  for (let i = 0; i < copies; i++) weights.push(await makeWeight(size, known.layout));
  const failures: unknown[] = [];
  for (const rows of counts) {
    const { x, xStride } = await makeInput(kind, rows, columns);
    const out = allocateTensor(device, rows * outputs * 4, "linear outputs");
    const own = rows <= FEW_ROWS ? weights : weights.slice(0, 1);
    const linearCase = { kind, copies: own, x, xStride, out, rows };
    const work = {
      bytes: bytes + 4 * rows * (xStride + outputs),
      flops: 2 * rows * outputs * columns,
    };
    const compared = compare(report, candidates(linearCase), {
      out,
      check: checkOf(linearCase),
      cells: (name, seconds) => [
        `${kind.name} ${outputs}x${columns}, ${rows}`,
        name,
        ...workCells(seconds, work, known),
      ],
    });
    await compared.catch((cause) => failures.push(cause));
    for (const { buffer } of [x.tensor, out]) buffer.destroy();
  }
  for (const weight of weights) weight.destroy();
  if (failures.length > 0) throw failures[0];
}

/** Every share of few rows beside each other. */
function shareCandidates(linearCase: LinearCase): Candidate[] {
  const { kind, rows } = linearCase;
  const numericClass = kind.coded ? CODES : FMA128;
  return FEW_TOKENS.filter((tokens) => tokens <= rows).flatMap((tokens) =>
    SHARES.map((share) => {
      const form = { tokens, ...share, cost: 1 };
      return candidateOf(linearCase, numericClass, formName(form), [form]);
    }),
  );
}

export function sharesSection(): void {
  describe("shares of few rows", () => {
    const report = new Report("Ways to share few rows out", [
      "weights, rows",
      "form",
      ...WORK_HEADER,
    ]);
    afterAll(() => report.finish());
    for (const shape of [ONE_ROW_SHAPES[0]!, ONE_ROW_SHAPES[2] ?? ONE_ROW_SHAPES[1]!]) {
      for (const kind of KINDS) {
        const name = `${kind.name} ${shape.join("x")}`;
        const rows = scaled([1, 4, 8], [4]);
        test(name, () => measureRows(report, kind, shape, rows, shareCandidates), TIMEOUT);
      }
    }
  });
}

export function oneRowSection(): void {
  describe("one row", () => {
    const report = new Report("Linears of one row", ["weights", "form", ...WORK_HEADER]);
    afterAll(() => report.finish());
    for (const shape of ONE_ROW_SHAPES) {
      for (const kind of KINDS) {
        const name = `${kind.name} ${shape.join("x")}`;
        test(name, () => measureRows(report, kind, shape, [1]), TIMEOUT);
      }
    }
  });
}

export function manyRowsSection(): void {
  describe("many rows", () => {
    const report = new Report("Linears of several rows", ["weights, rows", "form", ...WORK_HEADER]);
    afterAll(() => report.finish());
    for (const kind of scaled(KINDS, [FP8, INT8_CODES])) {
      const name = `${kind.name} ${ROWS_SHAPE.join("x")}`;
      test(name, () => measureRows(report, kind, ROWS_SHAPE, ROWS), TIMEOUT);
    }
  });
}
