import { describe, expect, test } from "vitest";
import {
  adapterChoice,
  adaptersOfRanks,
  listedAdapters,
} from "../../../src/node/device/listed_adapters.ts";

const complaint = (...names: readonly string[]) =>
  ["no suitable backends found", "Available adapters:"]
    .concat(names.map((name) => ` * backend: 'vulkan', name: '${name}'`))
    .join("\n");
const listed = (...names: readonly string[]) => listedAdapters(complaint(...names), "vulkan");

const LAVAPIPE = "llvmpipe (LLVM 15.0.6, 256 bits)";
const SWIFTSHADER = "SwiftShader Device (Subzero)";

test("adapters are listed in the system's order, those of other backends left out", () => {
  const text = `${complaint(SWIFTSHADER, LAVAPIPE)}\n * backend: 'null', name: 'Null'`;
  expect(listedAdapters(text, "vulkan")).toEqual([
    { name: SWIFTSHADER, isCpu: true },
    { name: LAVAPIPE, isCpu: true },
  ]);
  expect(listedAdapters("something else", "vulkan")).toEqual([]);
});

test("numbers are of GPUs alone where there are some", () => {
  const names = listed("A GPU", LAVAPIPE, "Bob's 'GPU'").map(({ name }) => name);
  expect(names).toEqual(["A GPU", "Bob's 'GPU'"]);
});

test("an adapter is asked for by its name, or alone where one before it has the name too", () => {
  const adapters = listed("RTX 3080 Ti", "RTX 3080", "H100", "H100");
  expect(adapters.map((_, i) => adapterChoice(adapters, i))).toEqual([
    { flag: "adapter=RTX 3080 Ti", prime: undefined },
    { flag: "adapter=RTX 3080", prime: "1!" },
    { flag: "adapter=H100", prime: undefined },
    { flag: "adapter=H100", prime: "3!" },
  ]);
});

describe("adaptersOfRanks()", () => {
  const place = (
    ranks: number,
    adapters: readonly string[],
    [baseGpuId, gpuIdStep]: readonly (number | undefined)[] = [],
  ) => adaptersOfRanks({ ranks, baseGpuId, gpuIdStep }, listed(...adapters));
  const four = ["H100", "H100", "H100", "H100"];

  test.each([
    ["each its own", 4, four, [], [0, 1, 2, 3]],
    ["turns where there are more ranks", 4, ["H100", "H100"], [], [0, 1, 0, 1]],
    ["one on the CPU", 3, [LAVAPIPE, LAVAPIPE], [], [0, 0, 0]],
    ["those from a number on", 2, four, [2, undefined], [2, 3]],
    ["every other", 2, four, [1, 2], [1, 3]],
    ["the same", 3, four, [3, 0], [3, 3, 3]],
    ["the same, on the CPU", 2, [SWIFTSHADER, LAVAPIPE], [1, 0], [1, 1]],
  ])("gives ranks %s", (_, ranks, adapters, asked, want) => {
    expect(place(ranks, adapters, asked)).toEqual(want);
  });

  test.each([
    [[4, undefined], "--base-gpu-id 4: rank 0 of this machine would take adapter 4"],
    [[3, undefined], "--base-gpu-id 3: rank 1 of this machine would take adapter 4"],
    [[undefined, 4], "--gpu-id-step 4: rank 1 of this machine would take adapter 4"],
    [[2, 1], "--gpu-id-step 1: rank 2 of this machine would take adapter 4"],
  ])("refuses %j, and says what there is", (asked, message) => {
    const there = ", and there is 0 (H100), 1 (H100), 2 (H100), 3 (H100)";
    expect(() => place(3, four, asked)).toThrow(`Cannot use option ${message}${there}`);
  });
});
