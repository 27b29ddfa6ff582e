import { describe, expect, test } from "vitest";
import { tuningNumbers } from "../../../kernels/attention/check_tuning.ts";
import gqaDecode from "../../../kernels/attention/gqa/gqa_decode.check.ts";
import gqaPrefill from "../../../kernels/attention/gqa/gqa_prefill.check.ts";
import gqaWriteDecode from "../../../kernels/attention/gqa/gqa_write_decode.check.ts";
import mlaDecode from "../../../kernels/attention/mla/mla_decode.check.ts";
import mlaPrefill from "../../../kernels/attention/mla/mla_prefill.check.ts";
import type { KernelCheck } from "../../../kernels/check.ts";
import { layoutFor } from "../../../kernels/linear/weights/layout.ts";
import { ADAPTER_TUNINGS, type AttentionTuning, DEFAULT_TUNING } from "../../../src/gpu/tuning.ts";
import { device, fullTest } from "../../support/devices/gpu.ts";
import { runCase } from "../../support/devices/kernel_outcome.ts";

/** Nothing is shared: one head a workgroup, on any adapter. */
const PLAIN: AttentionTuning = {
  ...{ rowHeads: 1, groupHeads: 1, promptHeads: 1, lanes: 8, subgroups: false },
};

const ofTable = [...ADAPTER_TUNINGS.map(({ tuning }) => tuning), DEFAULT_TUNING].map(
  ({ attention }) => attention,
);
const most = { rowHeads: 16, groupHeads: 4, promptHeads: 2, lanes: 16, subgroups: false };
const known = layoutFor(device).subgroupSize !== undefined;
/** As they run here; in the long campaign all of them through memory, too. */
const wanted = ofTable
  .flatMap((row) => {
    if (row === undefined) return [];
    // As with few workgroups and with many: here are always few.
    return row.fill === undefined ? [row] : [row, { ...row, fill: 0 }];
  })
  .flatMap((one) => {
    const portable = { ...one, subgroups: false };
    return fullTest ? [one, portable] : [known ? one : portable];
  });
const tunings = new Map(
  [...wanted, ...(fullTest ? [most] : [])].map((one) => [JSON.stringify(one), one]),
);

test("every row of the table says how attention is shared out", () => {
  expect(ofTable).not.toContain(undefined);
});

// Rows that stand alone and rows that share reads; more heads than any workgroup of the table has.
const sequences = [
  { first: 129, rows: 6 },
  { first: 40, rows: 1 },
];
const cache = { pageSize: 16, splitLength: 128, dtype: "bf16" } as const;
const gqa = { ...cache, sequences, heads: 9, kvHeads: 1, headDim: 36, sinks: true };
const written = {
  ...{ ...gqa, sequences: sequences.map(({ first }) => ({ first, rows: 1 })) },
  ...{ rotary: 20, norm: true, scale: 1, eps: 1e-6 },
};
const lengths = [1, 130, 131, 132, 133, 134, 135];
const mla = { ...cache, lengths, heads: 9, latent: 36, rope: 8, nope: 4 };
const expanded = {
  ...{ sequences, heads: 3, nope: 12, rope: 8, value: 36 },
  ...{ splitLength: 128, passKeys: 128 },
};

describe.each([
  ["generated rows, grouped-query", gqaDecode, gqa, {}],
  ["generated rows that share reads, grouped-query", gqaDecode, gqa, { grouped: 1 }],
  ["generated rows and their entries, grouped-query", gqaWriteDecode, written, {}],
  ["prompt rows, grouped-query", gqaPrefill, gqa, {}],
  ["generated rows, latent", mlaDecode, mla, {}],
  ["generated rows that share reads, latent", mlaDecode, mla, { grouped: 1 }],
  ["prompt rows, latent", mlaPrefill, expanded, {}],
] as const)("%s", (_, given, shape, form) => {
  const check = given as unknown as KernelCheck<object>;
  const bitsOf = async (tuning: AttentionTuning) => {
    const numbers = { ...tuningNumbers(tuning), ...form };
    const { error, where, bits } = await runCase(device, check, { shape, tuning: numbers });
    expect(error, where).toBeLessThanOrEqual(check.tolerance);
    return bits;
  };

  test("every tuning of the table gives the bits of the plain form", async () => {
    const plain = await bitsOf(PLAIN);
    for (const [name, tuning] of tunings) expect(await bitsOf(tuning), name).toEqual(plain);
  });
});
