/** What is measured of an adapter, as data. */
import { expect, test } from "vitest";
import { H200, profileJson, readProfile, shareOf } from "../../src/simulate/adapter_profile.ts";

test("a kernel has the shares of the longest name that its own begins with", () => {
  const shares = new Map([
    ["", new Map([[1, 0.1]])],
    ["moe", new Map([[1, 0.2]])],
    ["moe/experts", new Map([[1, 0.3]])],
    ["moe/experts/expert_down", new Map([[1, 0.4]])],
  ]);
  const of = (kernel: string) => shareOf({ ...H200, shares }, kernel, 1);
  expect(of("moe/experts/expert_down")).toBe(0.4);
  expect(of("moe/experts/expert_gate_up")).toBe(0.3);
  expect(of("moe/sort")).toBe(0.2);
  expect(of("moenia/sort")).toBe(0.1);
  expect(of("norm")).toBe(0.1);
  expect(shareOf({ ...H200, shares: new Map() }, "norm", 1)).toBe(1);
});

test("between measured rows a share follows their logarithm, and beyond them it stays", () => {
  // In no order: a file may have them in any.
  const shares = new Map([
    [
      "",
      new Map([
        [16, 0.6],
        [1, 0.2],
        [4, 0.4],
      ]),
    ],
  ]);
  const at = [1, 2, 4, 8, 16, 64].map((rows) => shareOf({ ...H200, shares }, "linear", rows));
  expect(at).toEqual([0.2, expect.closeTo(0.3), 0.4, expect.closeTo(0.5), 0.6, 0.6]);
  const from4 = new Map([["", new Map([[4, 0.4]])]]);
  expect(shareOf({ ...H200, shares: from4 }, "linear", 1)).toBe(0.4);
});

test("a profile is the same after it was written and read", () => {
  expect(readProfile(JSON.parse(JSON.stringify(profileJson(H200))), "file")).toEqual(H200);
});

const json = () => JSON.parse(JSON.stringify(profileJson(H200)));
test.each([
  ["no number", { ...json(), copy: "fast" }, "copy"],
  ["a rate of 0", { ...json(), fma: 0 }, "fma"],
  ["a time below 0", { ...json(), launch: -1 }, "launch"],
  ["no host", { ...json(), host: undefined }, "host"],
  ["a field that is not known", { ...json(), speed: 1 }, "speed"],
  ["rows that are none", { ...json(), kernels: { moe: { many: 0.5 } } }, "many"],
  ["a share of 0", { ...json(), kernels: { moe: { 1: 0 } } }, "kernels.moe.1"],
  ["a kernel without shares", { ...json(), kernels: { moe: {} } }, "kernels.moe"],
  ["no object", 3, "object"],
])("readProfile() names what is wrong: %s", (_, value, named) => {
  expect(() => readProfile(value, "profile.json")).toThrow(named);
});
