import { mkdirSync, mkdtempSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { ucxDevices } from "../../../src/node/device/network_devices.ts";
import {
  DISAGGREGATION_OPTIONS,
  knownHosts,
  requireUsableDisaggregation,
} from "../../../src/node/disaggregation/disaggregation_options.ts";
import { parseOptions } from "../../../src/node/options/option_parser.ts";

const optionsOf = (...hosts: string[]) =>
  parseOptions(DISAGGREGATION_OPTIONS, [
    ...["--disaggregation-mode", "decode", "--disaggregation-key", "k"],
    ...["--disaggregation-prefill-hosts", ...hosts],
  ]).values;

test("--disaggregation-prefill-hosts names hosts, ports and networks", () => {
  const [name, address, network, six] = knownHosts(
    optionsOf("Prefill.Example", "[::1]:9000", "10.1.0.0/16:9001", "[fd00::/8]"),
  );
  expect(name).toEqual({ host: "prefill.example" });
  expect(address).toEqual({ host: "::1", port: 9000 });
  expect(network).toMatchObject({ host: "10.1.0.0/16", port: 9001 });
  for (const inside of ["10.1.0.0", "10.1.255.255", "::ffff:10.1.0.1"]) {
    expect(network!.includes!(inside), inside).toBe(true);
  }
  for (const outside of ["10.2.0.0", "10.0.255.255", "fd00::1", "10.1.0.1.example", ""]) {
    expect(network!.includes!(outside), outside).toBe(false);
  }
  expect(["fd12::1", "fe80::1", "10.1.0.1"].map(six!.includes!)).toEqual([true, false, false]);
});

test.each(["10.0.0.0/33", "10.0.0/8", "name/8", "10.0.0.0/", "[fd00::/129]", "10.0.0.0/8/8x"])(
  "--disaggregation-prefill-hosts %s is no network",
  (host) => {
    expect(() => requireUsableDisaggregation(optionsOf(host))).toThrow("it is no network");
  },
);

describe("--disaggregation-ib-device", () => {
  const folder = mkdtempSync(join(tmpdir(), "wisp-devices-"));
  afterAll(() => rmSync(folder, { recursive: true }));
  const folders = { devices: join(folder, "infiniband"), interfaces: join(folder, "net") };
  for (const path of ["infiniband/mlx5_0", "infiniband/mlx5_1", "net/eth0", "net/eth0.5"]) {
    mkdirSync(join(folder, path), { recursive: true });
  }

  test.each([
    ["mlx5_0", "mlx5_0:1"],
    ["mlx5_0, mlx5_1:2", "mlx5_0:1,mlx5_1:2"],
    ["eth0,mlx5_1", "eth0,mlx5_1:1"],
    ["eth0.5", "eth0.5"],
  ])("%s is %s to UCX", (asked, names) => {
    expect(ucxDevices(asked, folders)).toEqual({ names });
  });

  test.each(["mlx5_2", "mlx5_0,", "eth0:1", "..", "", "mlx5_0/../mlx5_1"])(
    "%j names a device that is missing",
    (asked) => {
      expect(ucxDevices(asked, folders).missing).toBeDefined();
    },
  );

  const refusal = (...args: readonly string[]) => {
    const all = ["--disaggregation-mode=prefill", "--disaggregation-ib-device", ...args];
    const { values } = parseOptions(DISAGGREGATION_OPTIONS, all);
    return () => requireUsableDisaggregation(values);
  };

  test("is refused where nothing would go over it", () => {
    const key = ["--disaggregation-key", "k"];
    expect(refusal("none0", ...key)).toThrow(
      'Cannot use option --disaggregation-ib-device none0: this machine has no device "none0"',
    );
    expect(refusal("lo")).toThrow("servers of other machines need option --disaggregation-key");
    const backend = ["--disaggregation-transfer-backend", "websocket"];
    expect(refusal("lo", ...key, ...backend)).toThrow("websocket goes over any");
    expect(refusal("lo", ...key)).not.toThrow();
  });
});
