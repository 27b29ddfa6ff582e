import { testPlantedFaults } from "../../support/devices/planted_faults.ts";

testPlantedFaults(
  import.meta.glob("../../../kernels/{attention,cache}/**/*.check.ts", { eager: true }),
);
