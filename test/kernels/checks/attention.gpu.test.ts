import { testKernels } from "../../support/devices/kernel_checks.ts";

testKernels(import.meta.glob("../../../kernels/{attention,cache}/**/*.check.ts", { eager: true }));
