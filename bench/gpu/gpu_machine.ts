/**
 * What the machine is and gives at most: the section in front of all others.
 *
 * @module
 */
import { afterAll, describe, test } from "vitest";
import { measureRates } from "../../kernels/adapter_rates.ts";
import { listedConfigs } from "../../kernels/linear/matrix/matrix_configs.ts";
import { device } from "../../test/support/devices/gpu.ts";
import { bounds, micros, Report, TIMEOUT } from "./gpu_bench.ts";
import { measureLaunchCosts } from "./gpu_rates.ts";
import { HAS_CLOCK } from "./gpu_time.ts";

/** Launches of a layer in a step of one row. */
const LAYERS = [
  { name: "dense layer, grouped-query attention", launches: 6, layers: 64 },
  { name: "layer of experts, latent attention", launches: 10, layers: 61 },
] as const;

/** Products of matrices that a subgroup has, where the device may use them. */
function matrixConfigs(): string {
  const list = listedConfigs(device).map(
    ({ componentType, resultComponentType, M, N, K }) =>
      `${componentType} to ${resultComponentType} ${M}x${N}x${K}`,
  );
  return list.length === 0 ? "none" : list.join("; ");
}

export function ratesSection(): void {
  describe("rates", () => {
    const report = new Report("The adapter", ["what", "figure"]);
    afterAll(() => report.finish());

    test(
      "the adapter's rates",
      async () => {
        const { copy, fma, selfTest, layout } = await bounds();
        const { adapterInfo, features, limits } = device;
        const { vendor, architecture, subgroupMinSize, subgroupMaxSize } = adapterInfo;
        report.line(["vendor, architecture", `${vendor} ${architecture}`]);
        report.line(["subgroups of", `${subgroupMinSize} to ${subgroupMaxSize}`]);
        report.line(["subgroup matrices", matrixConfigs()]);
        report.line(["features", [...features].sort().join(", ")]);
        report.line(["a binding's MiB", `${limits.maxStorageBufferBindingSize / 2 ** 20}`]);
        report.line(["times are taken by", HAS_CLOCK ? "the GPU's clock" : "the host's clock"]);
        report.line(["FP8 is decoded through", layout.fp8Decode ?? "half"]);
        report.line(["subgroups are used", `${layout.subgroupSize ?? "no"}`]);
        report.line(["products of packed int8", selfTest.packedDots ? "yes" : "no"]);
        report.line(["batch invariant", selfTest.batchInvariant ? "yes" : "no"]);
        report.line(["self-test's failures", selfTest.failures.join("; ") || "none"]);
        report.line(["copy, GB/s", (copy / 1e9).toFixed(1)]);
        report.line(["fma, GFLOP/s", (fma / 1e9).toFixed(0)]);
        if (!HAS_CLOCK) return;
        const own = await measureRates(device);
        report.line(["copy as profiles have it, GB/s", (own.copy / 1e9).toFixed(1)]);
        report.line(["fma as profiles have it, GFLOP/s", (own.fma / 1e9).toFixed(0)]);
      },
      TIMEOUT,
    );

    test(
      "what launches and submits cost",
      async () => {
        const costs = await measureLaunchCosts();
        const { launch, indirectLaunch, hostLaunch, roundTrip } = costs;
        report.line(["launch behind another, us", micros(launch)]);
        report.line(["launch of a grid in memory, us", micros(indirectLaunch)]);
        report.line(["launch on the host, us", micros(hostLaunch)]);
        report.line(["launch, submit and 4 bytes back, us", micros(roundTrip)]);
        for (const { name, launches, layers } of LAYERS) {
          const layer = launches * Math.max(launch, hostLaunch);
          report.line([`${name}: ${launches} launches, us`, micros(layer)]);
          report.line([`${layers} such layers, ms`, (layers * layer * 1e3).toFixed(2)]);
        }
      },
      TIMEOUT,
    );
  });
}
