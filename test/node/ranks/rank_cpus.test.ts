import { mkdirSync, mkdtempSync, rmSync, writeFileSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { afterAll, describe, expect, test } from "vitest";
import { allowedCpus, bindsRanks, cpusOfRanks } from "../../../src/node/ranks/rank_cpus.ts";

const root = `${mkdtempSync(join(tmpdir(), "wisp-cpus-"))}/`;
afterAll(() => rmSync(root, { recursive: true }));

/** Two sockets of two cores, each of two CPUs, numbered as Linux does it. */
const SOCKETS = { 0: [0, 0], 1: [1, 0], 2: [0, 1], 3: [1, 1], 4: [0, 0], 5: [1, 0], 6: [0, 1] };

function machine(allowed: string): void {
  mkdirSync(`${root}proc/self`, { recursive: true });
  writeFileSync(`${root}proc/self/status`, `Name:\tnode\nCpus_allowed_list:\t${allowed}\n`);
  for (const [cpu, [socket, core]] of Object.entries(SOCKETS)) {
    const topology = `${root}sys/devices/system/cpu/cpu${cpu}/topology`;
    mkdirSync(topology, { recursive: true });
    writeFileSync(join(topology, "physical_package_id"), `${socket}\n`);
    writeFileSync(join(topology, "core_id"), `${core}\n`);
  }
}

describe("cpusOfRanks()", () => {
  test.each([
    [
      2,
      "0-6",
      [
        [0, 4, 2],
        [6, 1, 5, 3],
      ],
    ],
    [
      3,
      "0-5",
      [
        [0, 4],
        [2, 1],
        [5, 3],
      ],
    ],
    [1, "3,5-6", [[6, 5, 3]]],
    [4, "0,2", [[0], [2], [0], [2]]],
    // A CPU of which nothing is known.
    [2, "0,9", [[0], [9]]],
  ])("gives %i ranks of CPUs %s parts of their own", (ranks, allowed, want) => {
    machine(allowed);
    expect(cpusOfRanks(allowedCpus(root)!, ranks)).toEqual(want);
  });
});

test("allowedCpus() says nothing where the system does not", () => {
  expect(allowedCpus(`${root}none/`)).toBeUndefined();
});

test.each([
  ["true", true],
  ["1", true],
  [" False ", false],
  ["0", false],
  ["", false],
  [undefined, false],
])("SVC_SET_CPU_AFFINITY %j means %s", (value, want) => {
  expect(bindsRanks({ SVC_SET_CPU_AFFINITY: value })).toBe(want);
});
