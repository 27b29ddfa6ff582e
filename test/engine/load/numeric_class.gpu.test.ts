import { expect, test } from "vitest";
import { matrixKernels } from "../../../kernels/matrix_self_test.ts";
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import { classLayout } from "../../../src/engine/load/class_layout.ts";
import { loadModel } from "../../../src/engine/load/load.ts";
import { SUBGROUP_MATRIX } from "../../../src/gpu/device.ts";
import { NUMERIC_CLASS_CHOICES } from "../../../src/models/numeric_class.ts";
import { openDevice } from "../../../src/node/device/device.ts";
import { randomGqa } from "../../support/checkpoints/random_gqa.ts";
import { device } from "../../support/devices/gpu.ts";
import { openNullDevice } from "../../support/devices/null_device.ts";

test("numeric class mma128 is refused where there are no subgroup matrices", async () => {
  const checkpoint = await Checkpoint.open(randomGqa({ family: "qwen3" }));
  const options = { device, maxTotalTokens: 1024, numericClass: "mma128" } as const;
  await expect(loadModel(checkpoint, { ...options, matrixKernels })).rejects.toThrow(
    "numeric class mma128: this adapter does not have subgroup matrices",
  );
  await expect(loadModel(checkpoint, options)).rejects.toThrow("needs the option matrixKernels");
});

test("a device may be asked for subgroup matrices, which drivers for the CPU have not", async () => {
  const opened = await openDevice({ subgroupMatrices: true });
  if (opened.adapter.isCpu) expect(opened.device.features.has(SUBGROUP_MATRIX)).toBe(false);
  opened.device.destroy();
});

test("nothing asks for f16 operands but its name", async () => {
  const everything = await openNullDevice();
  for (const wanted of ["auto", "fma128", "int8"] as const) {
    expect(classLayout(wanted, everything).halfProducts ?? false).toBe(false);
  }
  expect(classLayout("f16", everything)).toEqual({
    ...{ halfProducts: true, wordSums: everything.features.has("subgroups") },
  });
  expect(NUMERIC_CLASS_CHOICES).toEqual(["auto", "fma128", "int8", "f16", "mma128"]);
});
