import { testKernels } from "../../support/kernel_checks.ts";

testKernels(import.meta.glob("../../../kernels/linear/*.check.ts", { eager: true }));
