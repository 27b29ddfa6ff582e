import { expect, test } from "vitest";
import { CHECK_RANKS_OPTIONS, groupPlace } from "../../../src/node/mpi/rank_options.ts";
import { parseOptions } from "../../../src/node/options/option_parser.ts";

const placeOf = (line: string) =>
  groupPlace(parseOptions(CHECK_RANKS_OPTIONS, line.split(" ").filter(Boolean)).values);

test("options say where ranks are", () => {
  const alone = { nodes: 1, node: 0, ranksPerNode: 2, address: undefined, timeout: 600_000 };
  expect(placeOf("")).toEqual(alone);
  expect(
    placeOf("--tp 16 --nnodes 2 --node-rank 1 --dist-init-addr a.b:5 --dist-timeout 3"),
  ).toEqual({
    nodes: 2,
    node: 1,
    ranksPerNode: 8,
    address: { host: "a.b", port: 5 },
    timeout: 3000,
  });
  expect(placeOf("--dist-init-addr [fe80::1%eth0]:65535").address).toEqual({
    host: "fe80::1%eth0",
    port: 65_535,
  });
});

test.each([
  [
    "--tp 3 --nnodes 2 --dist-init-addr a:1",
    "--tp-size 3: 2 machines cannot have as many ranks each",
  ],
  ["--node-rank 1", "--node-rank 1: the machines of --nnodes 1 are 0 to 0"],
  ["--nnodes 2", "--nnodes 2: --dist-init-addr has to say where the machines meet"],
  ["--dist-init-addr a", "--dist-init-addr a: write host:port, as 10.0.0.1:5000"],
  ["--dist-init-addr a:0", "--dist-init-addr a:0: write host:port"],
  ["--dist-init-addr a:65536", "--dist-init-addr a:65536: write host:port"],
  ["--dist-init-addr ::1:5", "--dist-init-addr ::1:5: write host:port"],
  ["--dist-init-addr http://a:5", "--dist-init-addr http://a:5: write host:port"],
  ["--dist-timeout 0", "--dist-timeout 0: "],
  ["--tp 1025", "--tp 1025: it must be a whole number from 1 to 1024"],
])("%s is refused", (line, message) => {
  expect(() => placeOf(line)).toThrow(`Cannot use option ${message}`);
});
