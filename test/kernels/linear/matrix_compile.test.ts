/**
 * Kernels of class mma128 as a GPU with subgroup matrices compiles them: no adapter of these tests
 * has them, so that their products run emulated elsewhere, and this is what checks the real ones.
 *
 * @module
 */
import { afterAll, beforeAll, expect, test } from "vitest";
import { mlaDecodeMatrix } from "../../../kernels/attention/mla/mla_decode_matrix.ts";
import type { CacheDtype } from "../../../kernels/cache/cache_kernel.ts";
import { MATRIX_CONFIGS } from "../../../kernels/linear/checks/check_matrix.ts";
import type { ExpertWeights, LinearWeight } from "../../../kernels/linear/linear_layout.ts";
import { matrixTiles } from "../../../kernels/linear/matrix/matrix_configs.ts";
import { matrixGateUp } from "../../../kernels/linear/matrix/matrix_gate_up.ts";
import { matrixLinear } from "../../../kernels/linear/matrix/matrix_linear.ts";
import { type MatrixClass, tilesOf } from "../../../kernels/linear/matrix_class.ts";
import {
  DEFAULT_LAYOUT,
  scaleWords,
  type WeightDtype,
} from "../../../kernels/linear/weights/layout.ts";
import { matrixExpertDown } from "../../../kernels/moe/matrix/matrix_expert_down.ts";
import { matrixExpertGateUp } from "../../../kernels/moe/matrix/matrix_expert_gate_up.ts";
import { Recorder } from "../../../src/gpu/recorder.ts";
import { type Tensor, whole } from "../../../src/gpu/tensor.ts";
import { openNullDevice } from "../../support/devices/null_device.ts";

const DTYPES: readonly WeightDtype[] = ["bf16", "f16", "f32", "fp8", "int8", "int4", "mxfp4"];
/** Of Intel, Apple and NVIDIA; of AMD; and what else there may be. */
const SUBGROUP_SIZES = [16, 32, 64, 128];

let device: GPUDevice;
let any: Tensor;

beforeAll(async () => {
  device = await openNullDevice();
  // Pipelines are left out: workgroups of that device have half of the memory that a GPU's have.
  device.createComputePipelineAsync = async () => ({}) as GPUComputePipeline;
  any = whole(device.createBuffer({ size: 1 << 16, usage: 0x80 }));
});
afterAll(() => device.destroy());

function weightOf(dtype: WeightDtype): LinearWeight {
  const form = { ...DEFAULT_LAYOUT, dtype, rows: 40, rowsPadded: 40, columns: 300 };
  return { ...form, words: any, ...(scaleWords(form) > 0 && { scales: any }) };
}

function expertsOf({ words, scales, ...form }: LinearWeight): ExpertWeights {
  const slab = { firstExpert: 0, expertCount: 3, words, ...(scales && { scales }) };
  return { ...form, expertCount: 3, slabs: [slab] };
}

/** Binds kernels, which must then compile without a warning; how many there were. */
async function compiled(bind: (recorder: Recorder) => void): Promise<number> {
  const codes: string[] = [];
  const rewrite = (_: string, code: string) => {
    codes.push(code);
    return code;
  };
  const recorder = new Recorder(device, { maxLaunches: 64, rewrite });
  bind(recorder);
  await recorder.pipelines.ready();
  for (const code of codes) {
    const { messages } = await device.createShaderModule({ code }).getCompilationInfo();
    expect(messages.map(({ message }) => message)).toEqual([]);
  }
  recorder.destroy();
  return codes.length;
}

const cases = Object.entries(MATRIX_CONFIGS).flatMap(([name, config]) =>
  SUBGROUP_SIZES.map((subgroupMaxSize) => {
    const tiles = matrixTiles(config, { subgroupMaxSize, decode: false });
    return [`${name} in subgroups of ${subgroupMaxSize}`, tiles] as const;
  }),
);

const CACHES: readonly CacheDtype[] = ["bf16", "f32", "fp8_e4m3", "fp8_e5m2"];

test.each(cases)("%s: latent attention compiles for every cache", async (_, tiles) => {
  for (const cacheDtype of CACHES) {
    const bound = await compiled((recorder) => {
      mlaDecodeMatrix(recorder, {
        ...{ queryAbsorbed: any, query: any, queryStride: 16 * 192, cache: any, cacheDtype },
        ...{ rows: any, pageTables: any, ropeTable: any, partials: any, out: any, heads: 16 },
        ...{ latent: 512, rope: 64, nope: 128, pageSize: 64, splitLength: 2048, scale: 0.1, tiles },
      });
    });
    // Of one split, of several, and what merges them.
    expect(bound).toBe(3);
  }
});

test.each(cases)("%s: kernels compile for every dtype", async (_, tiles: MatrixClass) => {
  for (const dtype of DTYPES) {
    const weight = { ...weightOf(dtype), matrix: tiles };
    if (tilesOf(weight) === undefined) {
      expect(dtype).toBe("f32");
      continue;
    }
    const bound = await compiled((recorder) => {
      matrixLinear(recorder, {
        ...{ x: any, xStride: 300, weight, tiles, out: any, outStride: 40 },
        segments: 3,
      });
      const halves = { x: any, xStride: 300, tiles, intermediate: 20, out: any, outStride: 20 };
      matrixGateUp(recorder, { ...halves, weight });
      const lists = { slots: 2, sortedPairs: any, tileList: any, weights: expertsOf(weight) };
      matrixExpertGateUp(recorder, { ...halves, ...lists });
      matrixExpertDown(recorder, { ...halves, ...lists, segments: 3 });
    });
    // Of each kernel, one for tiles of 16 rows and one for 64.
    expect(bound).toBe(8);
  }
});
