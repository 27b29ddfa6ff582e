/** Draft trees of models and forms that test/models/draft_trees.gpu.test.ts does not have. */
import { MATRIX_CONFIGS } from "../../../kernels/linear/checks/check_matrix.ts";
import { matrixKernels } from "../../../kernels/matrix_self_test.ts";
import { SHARED_MODELS } from "../../support/checkpoints/folder_source.ts";
import { randomDeepseek } from "../../support/checkpoints/random_deepseek.ts";
import { randomGqa } from "../../support/checkpoints/random_gqa.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import { openEmulatedMatrices } from "../../support/reference/emulated_matrices.ts";
import { type TreeCase, testTrees } from "../tree_sessions.ts";

const deepseek = () => randomDeepseek({});
const fp8 = async () => ({ cacheDtype: "fp8_e4m3" }) as const;

const CASES: readonly TreeCase[] = [
  { name: "DeepSeek", source: deepseek, pageSizes: [1, 64] },
  { name: "DeepSeek, an FP8 cache", source: deepseek, options: fp8, pageSizes: [1, 16, 64] },
  {
    name: "DeepSeek, prompts as generated tokens",
    source: deepseek,
    options: async () => ({ deterministicInference: true }),
    pageSizes: [16],
  },
  {
    name: "DeepSeek, by matrices",
    source: deepseek,
    options: async () => {
      const { device } = await openEmulatedMatrices([MATRIX_CONFIGS["f32 8x8x8"]]);
      return { device, numericClass: "mma128", matrixKernels, deterministicInference: true };
    },
    pageSizes: [16],
  },
  { name: "Qwen3", source: () => randomGqa({ family: "qwen3" }), pageSizes: [16] },
  {
    name: "Llama, an FP8 cache",
    source: () => randomGqa({}),
    options: fp8,
    pageSizes: [1, 16, 64],
  },
  {
    name: "gpt-oss, whose windows begin in trees",
    source: () => randomGqa({ family: "gptOss", config: { sliding_window: 5 } }),
    pageSizes: [64],
  },
];
const SHARED: readonly TreeCase[] = [
  { name: "tiny DeepSeek-V3", source: () => "tiny-deepseek-v3-fp8", pageSizes: [16] },
  { name: "mini Qwen3", source: () => "mini-qwen3", pageSizes: [16] },
];

const all = SHARED_MODELS === undefined ? CASES : [...CASES, ...SHARED];
testTrees(smallestCaseOnly ? CASES.slice(1, 2) : all);
