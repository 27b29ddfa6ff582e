import { expect, test } from "vitest";
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
