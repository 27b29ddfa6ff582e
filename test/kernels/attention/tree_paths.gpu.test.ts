/** Rows that follow paths have the bits of rows of sequences that are those paths. */
import { expect, test } from "vitest";
import gqaCheck from "../../../kernels/attention/gqa/gqa_decode.check.ts";
import { gqaDecode } from "../../../kernels/attention/gqa/gqa_decode.ts";
import gqaTrees, {
  plainRows as plainGqa,
} from "../../../kernels/attention/gqa/gqa_decode_trees.check.ts";
import { gqaOptions } from "../../../kernels/attention/gqa/gqa_reference.ts";
import { plainRows as plainMla } from "../../../kernels/attention/mla/check_mla_trees.ts";
import mlaDecode from "../../../kernels/attention/mla/mla_decode.check.ts";
import mlaMatrix from "../../../kernels/attention/mla/mla_decode_matrix.check.ts";
import mlaMatrixTrees from "../../../kernels/attention/mla/mla_decode_matrix_trees.check.ts";
import mlaTrees from "../../../kernels/attention/mla/mla_decode_trees.check.ts";
import type { KernelCheck } from "../../../kernels/check.ts";
import { device } from "../../support/devices/gpu.ts";
import { runCase } from "../../support/devices/kernel_outcome.ts";

/** The check of rows in trees, with the kernel of plain rows over the same entries. */
function plainly<C, P>(
  trees: KernelCheck<C>,
  plain: KernelCheck<P>,
  plainShape: (shape: C) => P,
): KernelCheck<C> {
  return {
    ...trees,
    bind: (recorder, shape, tensors, tuning) => {
      const own = { ...tensors, rows: tensors.plain_rows!, page_tables: tensors.plain_slots! };
      return plain.bind(recorder, plainShape(shape), own, tuning);
    },
  };
}

async function expectSameBits<C>(trees: KernelCheck<C>, plain: KernelCheck<C>): Promise<void> {
  for (const shape of trees.cases) {
    const run = { shape, tuning: trees.tunings[0]! };
    const { bits, error } = await runCase(device, trees, run);
    expect(error).toBeLessThanOrEqual(trees.tolerance);
    expect((await runCase(device, plain, run)).bits).toEqual(bits);
  }
}

test("grouped-query attention", () =>
  expectSameBits(gqaTrees, plainly(gqaTrees, gqaCheck, plainGqa)));

test("latent attention", () => expectSameBits(mlaTrees, plainly(mlaTrees, mlaDecode, plainMla)));

test("latent attention by matrices", () =>
  expectSameBits(mlaMatrixTrees, plainly(mlaMatrixTrees, mlaMatrix, plainMla)));

test("rows that follow paths share no reads", async () => {
  const grouped: typeof gqaTrees = {
    ...gqaTrees,
    bind: (recorder, shape, tensors) => {
      const options = {
        ...gqaOptions(shape, tensors),
        groups: tensors.groups!,
        followsPaths: true,
      };
      const launch = gqaDecode(recorder, options);
      return () => launch(1, 1, 1);
    },
  };
  await expect(runCase(device, grouped, { shape: gqaTrees.cases[0]!, tuning: {} })).rejects.toThrow(
    "rows that follow paths are not grouped",
  );
});
