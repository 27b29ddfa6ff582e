import { expect, test } from "vitest";
import { MATRIX_CONFIGS } from "../../../kernels/linear/checks/check_matrix.ts";
import {
  listedConfigs,
  matrixConfigs,
  matrixTiles,
  type SubgroupMatrixConfig,
} from "../../../kernels/linear/matrix/matrix_configs.ts";
import { tilesOf } from "../../../kernels/linear/matrix_class.ts";
import { DEFAULT_LAYOUT } from "../../../kernels/linear/weights/layout.ts";
import { requestDevice } from "../../../src/gpu/device.ts";
import { classesOf } from "../../../src/models/numeric_class.ts";
import { openNullDevice } from "../../support/devices/null_device.ts";

const listed = (
  componentType: string,
  [M, N, K]: readonly [number, number, number],
  resultComponentType = "f32",
): SubgroupMatrixConfig => ({ componentType, resultComponentType, M, N, K });

test("matrixConfigs() takes f32 operands before f16, and large products before small ones", () => {
  const configs = matrixConfigs([
    listed("f16", [8, 8, 8]),
    listed("f16", [16, 16, 16]),
    listed("f32", [8, 8, 8]),
  ]);
  expect(configs).toEqual([
    MATRIX_CONFIGS["f32 8x8x8"],
    MATRIX_CONFIGS["f16 16x16x16"],
    MATRIX_CONFIGS["f16 8x8x8"],
  ]);
});

test("matrixConfigs() leaves out sums in f16, whole numbers, and sizes that tiles are no multiple of", () => {
  const configs = matrixConfigs([
    listed("f16", [16, 16, 16], "f16"),
    listed("i8", [16, 16, 32], "i32"),
    listed("f16", [16, 8, 32]),
    listed("f16", [32, 8, 16]),
    listed("f16", [8, 16, 16]),
  ]);
  expect(configs).toEqual([MATRIX_CONFIGS["f16 8x16x16"]]);
});

test("listedConfigs() is empty where an adapter lists none", async () => {
  const device = await openNullDevice();
  expect(listedConfigs(device)).toEqual([]);
  device.destroy();
});

test("listedConfigs() has what the adapter lists where the device tells of none", async () => {
  const opened = await openNullDevice();
  const configs = [listed("f16", [16, 16, 16])];
  const { features, limits } = opened;
  const adapter = {
    ...{ features, limits, info: { subgroupMatrixConfigs: configs } },
    requestDevice: () => Promise.resolve(opened),
  };
  const device = await requestDevice(adapter as unknown as GPUAdapter);
  expect(listedConfigs(device)).toEqual(configs);
  device.destroy();
});

test("matrixTiles() has workgroups of whole subgroups, at most 256 invocations", () => {
  const sizes = [8, 16, 32, 64, 128].map((subgroupMaxSize) => {
    const tiles = matrixTiles(MATRIX_CONFIGS["f32 8x8x8"], { subgroupMaxSize, decode: false });
    return [tiles.workgroup, tiles.subgroups];
  });
  expect(sizes).toEqual([
    [128, 16],
    [128, 8],
    [128, 4],
    [256, 4],
    [256, 2],
  ]);
});

test("tilesOf() leaves weights in f32 to f32 operands, and codes to codes", () => {
  const options = { subgroupMaxSize: 32, decode: false };
  const half = matrixTiles(MATRIX_CONFIGS["f16 16x16x16"], options);
  const single = matrixTiles(MATRIX_CONFIGS["f32 8x8x8"], options);
  const weight = { ...DEFAULT_LAYOUT, dtype: "f32" } as const;
  expect(tilesOf(weight)).toBeUndefined();
  expect(tilesOf({ ...weight, matrix: half })).toBeUndefined();
  expect(tilesOf({ ...weight, matrix: single })).toBe(single);
  expect(tilesOf({ ...weight, dtype: "int8", matrix: half })).toBe(half);
  expect(tilesOf({ ...weight, dtype: "int8", coded: true, matrix: half })).toBeUndefined();
});

test("classesOf() names the class of each phase", () => {
  const tiles = (decode: boolean) =>
    matrixTiles(MATRIX_CONFIGS["f32 8x8x8"], { subgroupMaxSize: 32, decode });
  const prompts = { ...DEFAULT_LAYOUT, matrix: tiles(false) };
  expect(classesOf(DEFAULT_LAYOUT, false)).toEqual({ prefill: "fma128", decode: "fma128" });
  expect(classesOf(prompts, false)).toEqual({ prefill: "mma128", decode: "fma128" });
  const all = { ...DEFAULT_LAYOUT, matrix: tiles(true) };
  expect(classesOf(all, false)).toEqual({ prefill: "mma128", decode: "mma128" });
});
