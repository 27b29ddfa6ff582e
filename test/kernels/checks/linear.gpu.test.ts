import { testKernels } from "../../support/devices/kernel_checks.ts";

testKernels(import.meta.glob("../../../kernels/linear/**/*.check.ts", { eager: true }));
