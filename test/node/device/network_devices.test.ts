import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, expect, test } from "vitest";
import { networkDevices } from "../../../src/node/device/network_devices.ts";

const folder = mkdtempSync(join(tmpdir(), "wisp-devices-"));
for (const name of ["mlx5_0", "mlx5_1", "mlx5_10", "bnxt_0"]) mkdirSync(join(folder, name));
afterAll(() => rmSync(folder, { recursive: true }));

test.each([
  ["=mlx5_1", "mlx5_1:1"],
  ["mlx5_1", "mlx5_1:1,mlx5_10:1"],
  ["mlx5_0:2, bnxt_0", "mlx5_0:2,bnxt_0:1"],
  ["=mlx5_1,mlx5_1:1", "mlx5_1:1"],
])("NCCL_IB_HCA %s is UCX_NET_DEVICES %s", (NCCL_IB_HCA, devices) => {
  const { devices: found = "" } = networkDevices({ NCCL_IB_HCA }, folder);
  expect(found.split(",").sort()).toEqual(devices.split(",").sort());
});

test.each([
  [{ NCCL_IB_HCA: "mlx4_0" }, "no such device"],
  [{ NCCL_IB_HCA: "=mlx5" }, "no such device"],
  [{ NCCL_IB_HCA: "^mlx5_0" }, "left out"],
  [{ NCCL_IB_HCA: "mlx5_0", UCX_NET_DEVICES: "eth0" }, "is set"],
])("%j leaves UCX as it is, and says why", (env, why) => {
  expect(networkDevices(env, folder)).toEqual({ problem: expect.stringContaining(why) });
});

test.each([{}, { NCCL_IB_HCA: " " }])("%j asks for nothing", (env) => {
  expect(networkDevices(env, folder)).toEqual({});
});
