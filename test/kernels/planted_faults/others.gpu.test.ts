import { testPlantedFaults } from "../../support/devices/planted_faults.ts";

testPlantedFaults(
  import.meta.glob(
    ["../../../kernels/**/*.check.ts", "!../../../kernels/{attention,cache,linear}/**"],
    { eager: true },
  ),
);
