import { testKernels } from "../../support/devices/kernel_checks.ts";

testKernels(
  import.meta.glob(
    ["../../../kernels/**/*.check.ts", "!../../../kernels/{attention,cache,linear}/**"],
    { eager: true },
  ),
);
