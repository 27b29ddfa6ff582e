/**
 * Attention of generated rows and of prompts by the length of the context: time, the rate at which
 * the cache is read, and multiply-adds, beside a copy and an FMA kernel. Values are compared first.
 *
 * @module
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import gqaDecodeCheck from "../kernels/attention/gqa/gqa_decode.check.ts";
import gqaPrefillCheck from "../kernels/attention/gqa/gqa_prefill.check.ts";
import gqaWriteDecodeCheck from "../kernels/attention/gqa/gqa_write_decode.check.ts";
import mlaDecodeCheck from "../kernels/attention/mla/mla_decode.check.ts";
import mlaPrefillCheck from "../kernels/attention/mla/mla_prefill.check.ts";
import type { KernelCheck } from "../kernels/check.ts";
import { Recorder } from "../src/gpu/recorder.ts";
import { device, seeded } from "../test/support/devices/gpu.ts";
import {
  compareTensors,
  destroyTensors,
  uploadArrays,
} from "../test/support/devices/kernel_outcome.ts";
import { gqaApart } from "../test/support/reference/gqa_apart.ts";
import { type AdapterRates, measureAdapter } from "./gpu/adapter_rates.ts";
import { catchLaunches } from "./support/launch_profile.ts";
import { machine } from "./support/machine.ts";
import { table } from "./support/table.ts";
import { measureLaunch } from "./support/timing.ts";

type Tuning = Readonly<Record<string, number>>;

const HEADER = ["kernel", "shape", "tuning", "us", "CPU us", "GB/s", "GFLOP/s", "of bound"];
const lines: string[][] = [];
let rates: AdapterRates;

beforeAll(async () => {
  rates = await measureAdapter();
}, 60_000);

afterAll(() => {
  const copy = (rates.copy / 1e9).toFixed(1);
  const fma = (rates.fma / 1e9).toFixed(0);
  console.log(`${machine()}\ncopy ${copy} GB/s, fma ${fma} GFLOP/s`);
  console.log(table(HEADER, lines));
});

interface Measured<C> {
  readonly check: KernelCheck<C>;
  readonly shape: C;
  readonly tuning: Tuning;
  readonly name: string;
}

async function measure<C>(check: KernelCheck<C>, shape: C, tuning: Tuning, name: string) {
  await measureBeside([{ check, shape, tuning, name }], 1);
}

/** Measures them in turns, `turns` times, so that other load meets them all alike. */
async function measureBeside<C>(all: readonly Measured<C>[], turns: number) {
  const bound = [];
  for (const one of all) bound.push(await bindAndCompare(one));
  const least = bound.map(() => ({ seconds: Infinity, cpuSeconds: Infinity }));
  for (let turn = 0; turn < turns; turn++) {
    for (const [i, { launches }] of bound.entries()) {
      const { seconds, cpuSeconds } = await measureLaunch((pass) => {
        for (const { encode } of launches) encode(pass);
      });
      const { seconds: s, cpuSeconds: c } = least[i]!;
      least[i] = { seconds: Math.min(s, seconds), cpuSeconds: Math.min(c, cpuSeconds) };
    }
  }
  for (const [i, { check, shape, tuning, name }] of all.entries()) {
    const { launches, destroy } = bound[i]!;
    const { seconds, cpuSeconds } = least[i]!;
    const bytes = check.bytes(shape);
    const flops = check.flops(shape);
    const fewest = Math.max(bytes / rates.copy, flops / rates.fma) + launches.length * rates.launch;
    lines.push([
      check.name,
      name,
      Object.entries(tuning)
        .map(([key, value]) => `${key} ${value}`)
        .join(", "),
      (seconds * 1e6).toFixed(0),
      (cpuSeconds * 1e6).toFixed(0),
      (bytes / seconds / 1e9).toFixed(2),
      (flops / seconds / 1e9).toFixed(2),
      `${((100 * fewest) / seconds).toFixed(0)} %`,
    ]);
    destroy();
  }
}

/** Its launches, whose answers are right. */
async function bindAndCompare<C>({ check, shape, tuning }: Measured<C>) {
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
  const destroy = () => {
    destroyTensors(tensors);
    recorder.destroy();
  };
  return { launches, destroy };
}

const gqa = { heads: 16, kvHeads: 8, headDim: 128, pageSize: 64, splitLength: 256 };
const FORMS: readonly Tuning[] = device.features.has("subgroups") ? [{}, { subgroups: 1 }] : [{}];

for (const dtype of ["f32", "bf16"] as const) {
  for (const keys of [512, 2048, 8192]) {
    test(`grouped-query decode, ${keys} keys in ${dtype}`, async () => {
      const shape = { ...gqa, sequences: [{ first: keys - 1, rows: 1 }], dtype };
      for (const form of FORMS) {
        await measure(gqaDecodeCheck, shape, form, `${keys} keys in ${dtype}, 16 heads on 8`);
      }
    }, 120_000);
  }
}

test.each([
  [16, 8],
  [16, 1],
  [32, 2],
])(
  "entries written apart and by those who read them, %s heads on %s",
  async (heads, kvHeads) => {
    const norms = { rotary: 128, norm: true, scale: 1, eps: 1e-6 };
    for (const dtype of ["bf16", "fp8_e4m3"] as const) {
      for (const keys of [200, 2048]) {
        const rows = { ...gqa, heads, kvHeads, sequences: [{ first: keys - 1, rows: 1 }], dtype };
        const shape = { ...rows, ...norms, norm: dtype === "bf16" };
        const name = `${keys} keys in ${dtype}, ${heads} heads on ${kvHeads}`;
        for (const form of FORMS) {
          await measure(gqaApart, shape, form, `${name}, apart`);
          await measure(gqaWriteDecodeCheck, shape, form, `${name}, together`);
        }
      }
    }
  },
  240_000,
);

test("rows of one sequence, alone and sharing reads", async () => {
  const shape = { ...gqa, sequences: [{ first: 2044, rows: 4 }], dtype: "bf16" } as const;
  for (const form of FORMS) {
    const name = "4 rows of one sequence, 2048 keys in bf16";
    await measure(gqaDecodeCheck, shape, form, name);
    await measure(gqaDecodeCheck, shape, { ...form, grouped: 1 }, name);
  }
}, 120_000);

const small = { latent: 128, rope: 16, nope: 32, heads: 4, lengths: Array(8).fill(500) };
const large = { latent: 512, rope: 64, nope: 128, heads: 16, lengths: [2048] };

for (const dtype of ["bf16", "fp8_e4m3"] as const) {
  for (const sizes of [small, large]) {
    const { heads, latent, rope, lengths } = sizes;
    test(`latent decode in ${dtype}, ${heads} heads`, async () => {
      const shape = { ...sizes, pageSize: 64, splitLength: 2048, dtype };
      const rows = `${lengths.length} rows of ${lengths[0]} keys in ${dtype}`;
      for (const form of FORMS) {
        await measure(
          mlaDecodeCheck,
          shape,
          form,
          `${rows}, ${heads} heads, ${latent + rope} wide`,
        );
      }
    }, 120_000);
  }
}

for (const keys of [256, 512, 2048]) {
  test(`256 prompt rows, ${keys} keys`, async () => {
    const prompt = { sequences: [{ first: keys - 256, rows: 256 }] };
    const grouped = { ...gqa, ...prompt, dtype: "bf16" } as const;
    const sizes = { heads: 16, nope: 128, rope: 64, value: 128 };
    const expanded = { ...sizes, ...prompt, splitLength: 2048, passKeys: 2048 };
    for (const form of FORMS) {
      for (const promptHeads of [1, 2]) {
        const name = `256 rows, ${keys} keys in bf16, 16 heads on 8`;
        await measure(gqaPrefillCheck, grouped, { ...form, promptHeads }, name);
      }
      await measure(mlaPrefillCheck, expanded, form, `256 rows, ${keys} keys, 16 heads`);
    }
  }, 240_000);
}

test("heads of a workgroup", async () => {
  const shape = { ...large, lengths: [2045, 2046, 2047, 2048], pageSize: 64 };
  const rows = { ...shape, splitLength: 2048, dtype: "bf16" } as const;
  for (const form of FORMS) {
    for (const rowHeads of [4, 8, 16]) {
      const alone = { ...rows, lengths: [2048] };
      await measure(mlaDecodeCheck, alone, { ...form, rowHeads }, "a row, 2048 keys");
    }
    for (const groupHeads of [1, 2, 4]) {
      const name = "4 rows of one sequence, 2048 keys";
      await measure(mlaDecodeCheck, rows, { ...form, grouped: 1, groupHeads }, name);
    }
  }
}, 240_000);
