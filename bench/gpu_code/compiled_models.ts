/**
 * The models whose kernels are compiled for GPUs that are not there: shapes as published, layers one of
 * each kind, weights never read.
 *
 * @module
 */
import { matrixConfigs, matrixTiles } from "../../kernels/linear/matrix/matrix_configs.ts";
import type { MatrixKernels } from "../../kernels/linear/matrix_class.ts";
import type { LoadOptions } from "../../src/engine/load/load_options.ts";
import { absentGroup } from "../../src/parallel/communicator.ts";
import { deepseekV2 } from "../../test/support/synthetic/deepseek_v2.ts";
import { deepseekV3 } from "../../test/support/synthetic/deepseek_v3.ts";
import { gptOss } from "../../test/support/synthetic/gpt_oss.ts";
import { qwen3, qwen3Moe } from "../../test/support/synthetic/qwen3.ts";
import type { SyntheticModel } from "../../test/support/synthetic/source.ts";

export interface CompiledModel {
  readonly name: string;
  readonly model: () => SyntheticModel;
  readonly options?: (device: GPUDevice) => Partial<LoadOptions>;
  /** Whether it takes subgroup matrices, which not every GPU has. */
  readonly needsMatrices?: boolean;
}

/** Three dense layers and one of experts: the others have the same kernels. */
const v3 = () => deepseekV3({ num_hidden_layers: 4, vocab_size: 129_280 });
const v2Lite = () => deepseekV2({ num_hidden_layers: 2, vocab_size: 102_400 });
const QWEN = { num_hidden_layers: 2, max_window_layers: 2, vocab_size: 151_936 };
const qwenSmall = () => qwen3(QWEN);
const qwen8b = () =>
  qwen3({
    ...QWEN,
    hidden_size: 4096,
    intermediate_size: 12_288,
    num_attention_heads: 32,
    num_key_value_heads: 8,
    tie_word_embeddings: false,
  });
const qwenMoe = () => qwen3Moe(QWEN);
const gptOss20b = () => gptOss({ num_hidden_layers: 2, vocab_size: 201_088 });

/** The products of RDNA3 and later, with f32 sums. */
const MATRIX = { componentType: "f16", resultComponentType: "f32", M: 16, N: 16, K: 16 };

/** Kernels over subgroup matrices, without the trial that they work. */
function matrixKernels(device: GPUDevice): MatrixKernels {
  const { subgroupMaxSize } = device.adapterInfo;
  return {
    async workingTiles() {
      const [config] = matrixConfigs([MATRIX]);
      return config && matrixTiles(config, { subgroupMaxSize, decode: true });
    },
  } as unknown as MatrixKernels;
}

const withMatrices = (device: GPUDevice): Partial<LoadOptions> => ({
  numericClass: "mma128",
  matrixKernels: matrixKernels(device),
});

export const COMPILED_MODELS: readonly CompiledModel[] = [
  { name: "v3-fp8", model: v3 },
  { name: "v3-fp8-cachefp8", model: v3, options: () => ({ cacheDtype: "fp8_e4m3" }) },
  { name: "v3-fp8-of8", model: v3, options: () => ({ communicator: absentGroup(8) }) },
  { name: "v3-fp8-f16", model: v3, options: () => ({ numericClass: "f16" }) },
  { name: "v3-fp8-mma", model: v3, options: withMatrices, needsMatrices: true },
  { name: "v2lite-bf16", model: v2Lite },
  { name: "qwen0.6-bf16", model: qwenSmall },
  { name: "qwen8-bf16", model: qwen8b },
  {
    name: "qwen8-fp8",
    model: qwen8b,
    options: () => ({ quantization: "fp8", cacheDtype: "fp8_e4m3" }),
  },
  { name: "qwen8-int4", model: qwen8b, options: () => ({ quantization: "int4" }) },
  { name: "qwen8-int8", model: qwen8b, options: () => ({ quantization: "int8" }) },
  { name: "qwen8-bf16-f16", model: qwen8b, options: () => ({ numericClass: "f16" }) },
  {
    name: "qwen8-int4-f16",
    model: qwen8b,
    options: () => ({ quantization: "int4", numericClass: "f16" }),
  },
  { name: "qwen8-bf16-mma", model: qwen8b, options: withMatrices, needsMatrices: true },
  { name: "qwen30a3b-int4", model: qwenMoe, options: () => ({ quantization: "int4" }) },
  { name: "gptoss20-mxfp4", model: gptOss20b },
];
