/**
 * Every kernel on its largest case: values against the reference first, because a kernel that
 * writes zeros looks fast, then time, GB/s and GFLOP/s beside a copy and an FMA kernel.
 *
 * The bound is max(bytes / copy rate, operations / FMA rate) + the cost of a launch. Launches are
 * timed among others of their kind, so what fits a cache comes from there and may beat the copy.
 *
 * @module
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import type { KernelCheck } from "../kernels/check.ts";
import { Recorder } from "../src/gpu/recorder.ts";
import { device, seeded } from "../test/support/devices/gpu.ts";
import {
  compareTensors,
  destroyTensors,
  uploadArrays,
} from "../test/support/devices/kernel_outcome.ts";
import { type AdapterRates, measureAdapter } from "./gpu/adapter_rates.ts";
import { catchLaunches } from "./support/launch_profile.ts";
import { machine } from "./support/machine.ts";
import { table } from "./support/table.ts";
import { timeLaunch } from "./support/timing.ts";

type Shape = Readonly<Record<string, unknown>>;

const checks = import.meta.glob<{ default: KernelCheck<Shape> }>("../kernels/**/*.check.ts", {
  eager: true,
});

/** Rows of the second form of a case whose kernel works row by row. */
const MANY_ROWS = 64;
const HEADER = ["kernel", "shape", "tuning", "us", "GB/s", "GFLOP/s", "of bound"];

const lines: string[][] = [];
let rates: AdapterRates;

beforeAll(async () => {
  rates = await measureAdapter();
}, 60_000);

afterAll(() => {
  const copy = (rates.copy / 1e9).toFixed(1);
  const fma = (rates.fma / 1e9).toFixed(0);
  const launch = (rates.launch * 1e6).toFixed(1);
  console.log(`${machine()}\ncopy ${copy} GB/s, fma ${fma} GFLOP/s, launch ${launch} us`);
  console.log(table(HEADER, lines));
});

/** The last case; where only its number of rows changes, also as one row and as many. */
function benchedShapes({ cases }: KernelCheck<Shape>): Shape[] {
  const last = cases.at(-1)!;
  const { rows } = last;
  if (typeof rows !== "number" || Object.values(last).some(Array.isArray)) return [last];
  return [
    { ...last, rows: 1 },
    { ...last, rows: Math.max(rows, MANY_ROWS) },
  ];
}

/** The default and, where there is one, the form for adapters with subgroups. */
function benchedTunings({ tunings }: KernelCheck<Shape>): Readonly<Record<string, number>>[] {
  const usable = tunings.filter(({ subgroups }) => !subgroups || device.features.has("subgroups"));
  return usable.filter((tuning, i) => i === 0 || (tuning as Shape).subgroups === 1);
}

for (const { default: check } of Object.values(checks)) {
  if (check.feature !== undefined && !device.features.has(check.feature)) continue;
  for (const shape of benchedShapes(check)) {
    for (const tuning of benchedTunings(check)) {
      test(`${check.name} ${words(shape)} ${words(tuning)}`, async () => {
        const inputs = check.inputs(shape, seeded(1));
        const want = check.reference(shape, inputs);
        const tensors = uploadArrays(device, { inputs, want });
        const recorder = new Recorder(device, { maxLaunches: 64 });
        const record = check.bind(recorder, shape, tensors, tuning);
        await recorder.pipelines.ready();
        const launches = await catchLaunches(recorder, async () => {
          record();
          recorder.submit();
        });
        const { error, where } = await compareTensors(device, { want, tensors });
        expect(error, where).toBeLessThanOrEqual(check.tolerance);

        const seconds = await timeLaunch((pass) => {
          for (const { encode } of launches) encode(pass);
        });
        const bytes = check.bytes(shape);
        const flops = check.flops(shape);
        const bound =
          Math.max(bytes / rates.copy, flops / rates.fma) + launches.length * rates.launch;
        lines.push([
          check.name,
          words(shape),
          words(tuning),
          (seconds * 1e6).toFixed(0),
          (bytes / seconds / 1e9).toFixed(2),
          (flops / seconds / 1e9).toFixed(2),
          `${((100 * bound) / seconds).toFixed(0)} %`,
        ]);
        destroyTensors(tensors);
        recorder.destroy();
      }, 120_000);
    }
  }
}

/** Names and numbers of a case, short enough for a table. */
function words(fields: Shape): string {
  const text = Object.entries(fields)
    .filter(([, value]) => value !== false && value !== 0)
    .map(([name, value]) => `${name} ${brief(value)}`);
  return text.join(", ");
}

function brief(value: unknown): string {
  if (!Array.isArray(value)) return typeof value === "object" ? JSON.stringify(value) : `${value}`;
  return value.length > 2
    ? `${brief(value[0])}, ... (${value.length})`
    : value.map(brief).join("+");
}
