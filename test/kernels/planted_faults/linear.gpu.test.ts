import { testPlantedFaults } from "../../support/devices/planted_faults.ts";

testPlantedFaults(import.meta.glob("../../../kernels/linear/**/*.check.ts", { eager: true }));
