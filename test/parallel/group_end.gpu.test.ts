import { describe, expect, test } from "vitest";
import { MATRIX_CONFIGS } from "../../kernels/linear/checks/check_matrix.ts";
import { matrixKernels } from "../../kernels/matrix_self_test.ts";
import type { LoadOptions } from "../../src/engine/load/load_options.ts";
import { GroupError } from "../../src/errors.ts";
import { localGroup } from "../../src/parallel/local.ts";
import { randomGqa } from "../support/checkpoints/random_gqa.ts";
import { smallestCaseOnly } from "../support/devices/gpu.ts";
import { ModelSession } from "../support/engines/model_session.ts";
import { openEmulatedMatrices } from "../support/reference/emulated_matrices.ts";

const LLAMA = {
  head_dim: 64,
  hidden_size: 32,
  intermediate_size: 256,
  num_attention_heads: 8,
  num_key_value_heads: 4,
  vocab_size: 264,
};

describe("a group ends together", () => {
  const source = () => randomGqa({ config: { ...LLAMA, num_hidden_layers: 1 } });
  const open = (options: readonly Partial<LoadOptions>[]) => {
    const group = localGroup(options.length);
    return Promise.allSettled(
      options.map((own, rank) =>
        ModelSession.open(source(), {
          maxRowsPerStep: 16,
          maxTotalTokens: 64,
          ...own,
          communicator: group[rank]!,
        }),
      ),
    );
  };
  const openTwo = async () =>
    (await open([{}, {}])).map((result) => {
      if (result.status === "rejected") throw result.reason;
      return result.value;
    });
  const reasons = (results: readonly PromiseSettledResult<unknown>[]) =>
    results.map((result) => (result.status === "rejected" ? (result.reason as Error) : undefined));

  test("when ranks load with different options", async () => {
    const errors = reasons(await open([{}, { pageSize: 2 }]));
    for (const error of errors) {
      expect(error).toBeInstanceOf(GroupError);
      expect(error?.message).toBe(
        "Cannot go on with ranks that disagree about what they load: pageSize is 1 on rank 0, 2 on rank 1",
      );
    }
  });

  test("when ranks compute in different classes", async () => {
    for (const error of reasons(await open([{ numericClass: "fma128" }, {}]))) {
      expect(error?.message).toBe(
        "Cannot go on with ranks that disagree about what they load: numericClass is fma128 on rank 0, auto on rank 1",
      );
    }
  });

  test.skipIf(smallestCaseOnly)("when ranks have different matrices", async () => {
    const configs = [MATRIX_CONFIGS["f16 16x16x16"], MATRIX_CONFIGS["f16 8x8x8"]];
    const devices = await Promise.all(configs.map((config) => openEmulatedMatrices([config])));
    const opened = devices.map((own) => ({
      ...{ device: own.device, numericClass: "mma128" as const, matrixKernels },
    }));
    for (const error of reasons(await open(opened))) {
      expect(error?.message).toBe(
        "Cannot go on with ranks that disagree about what they multiply by: matrices is f16 16x16x16 on rank 0, " +
          "f16 8x8x8 on rank 1",
      );
    }
  });

  test("when one of them cannot load", async () => {
    const [waiting, failed] = reasons(await open([{}, { maxBindingSize: 1024 }]));
    expect(waiting).toBeInstanceOf(GroupError);
    expect(waiting?.message).toContain(`could not load the model: ${failed?.message}`);
  });

  test.skipIf(smallestCaseOnly)("when one of them leaves before a step", async () => {
    const [first, second] = await openTwo();
    const part = () => ({ phase: "prefill" as const, count: 2 });
    const step = first!.run([{ sequence: first!.sequence([1, 2]), ...part() }]);
    second!.close();
    await expect(step).rejects.toThrow(
      "Cannot go on without rank 1, which has left its group: its model is not loaded",
    );
    const next = first!.run([{ sequence: first!.sequence([1, 2]), ...part() }]);
    await expect(next).rejects.toBeInstanceOf(GroupError);
    first!.close();
  });

  test.skipIf(smallestCaseOnly)("when a step of one of them fails", async () => {
    const [first, second] = await openTwo();
    const step = (session: ModelSession, onTap?: () => void) =>
      session.run([{ sequence: session.sequence([1, 2]), phase: "prefill", count: 2 }], {
        ...(onTap && { onTap }),
      });
    const fail = () => {
      throw new Error("a wire came loose");
    };
    const [waiting, failed] = reasons(
      await Promise.allSettled([step(first!), step(second!, fail)]),
    );
    expect(failed?.message).toBe("a wire came loose");
    expect(waiting).toBeInstanceOf(GroupError);
    expect(waiting?.message).toBe(
      "Cannot go on without rank 1, which has left its group: its step failed: a wire came loose",
    );
    for (const session of [first!, second!]) session.close();
  });
});
