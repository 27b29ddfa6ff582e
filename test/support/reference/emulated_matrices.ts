/**
 * A device that says it has subgroup matrices, whose products run emulated: an engine on it finds,
 * tries and uses them as on a GPU that has them.
 *
 * @module
 */
import emulated from "../../../kernels/common/matrix/matrix_tiles_emulated.wgsl?raw";
import type { SubgroupMatrixConfig } from "../../../kernels/linear/matrix/matrix_configs.ts";
import type { MatrixConfig } from "../../../kernels/linear/matrix/matrix_tiles.ts";
import { SUBGROUP_MATRIX } from "../../../src/gpu/device.ts";
import { specialize } from "../../../src/gpu/kernel.ts";
import { openDevice } from "../../../src/node/device/device.ts";
import { gpuErrors } from "../devices/gpu_errors.ts";

export interface EmulatedMatrices {
  readonly device: GPUDevice;
  /** Shaders that were to multiply matrices. */
  readonly shaders: () => number;
}

/** Text of the emulation, and what stands there instead. */
const FAULTS = {
  "wrong numbers": ["fma(a, b,", "fma(a, a,"],
  "no such function": ["fma(a, b,", "fmaa(a, b,"],
  // No linear loads any.
  "wrong rows of a right operand": ["Right(at, VALUE_STRIDE, 1u)", "Right(at, 1u, VALUE_STRIDE)"],
} as const;

export type Fault = keyof typeof FAULTS;

/**
 * Opens one whose adapter lists these products.
 *
 * @param faultOf What is wrong with the products of a configuration.
 */
export async function openEmulatedMatrices(
  configs: readonly MatrixConfig[],
  faultOf: (config: MatrixConfig) => Fault | undefined = () => undefined,
): Promise<EmulatedMatrices> {
  const { device } = await openDevice();
  device.addEventListener("uncapturederror", ({ error }) => {
    gpuErrors.messages.push(error.message);
  });
  const info = device.adapterInfo;
  const { vendor, architecture, description, device: name } = info;
  const { subgroupMinSize, subgroupMaxSize, isFallbackAdapter } = info;
  const listed = configs.map(
    ({ operand, m, n, k }): SubgroupMatrixConfig => ({
      ...{ componentType: operand, resultComponentType: "f32", M: m, N: n, K: k },
    }),
  );
  const adapterInfo = {
    ...{ vendor, architecture, description, device: name, isFallbackAdapter },
    ...{ subgroupMinSize, subgroupMaxSize, subgroupMatrixConfigs: listed },
  };
  const features = new Set([...device.features, SUBGROUP_MATRIX]);
  const createShaderModule = device.createShaderModule.bind(device);
  let shaders = 0;
  const emulating = (descriptor: GPUShaderModuleDescriptor) => {
    const config = configOf(descriptor.code);
    if (config === undefined) return createShaderModule(descriptor);
    shaders += 1;
    return createShaderModule({
      ...descriptor,
      code: emulate(descriptor.code, config, faultOf(config)),
    });
  };
  for (const [property, value] of Object.entries({
    adapterInfo,
    features,
    createShaderModule: emulating,
  })) {
    Object.defineProperty(device, property, { value });
  }
  return { device, shaders: () => shaders };
}

/** The products that a shader is made of; undefined when it multiplies no matrices. */
function configOf(code: string): MatrixConfig | undefined {
  if (!code.includes("enable chromium_experimental_subgroup_matrix;")) return undefined;
  const value = (name: string) =>
    new RegExp(`^(?:const|alias) ${name} = (\\w+);`, "m").exec(code)![1]!;
  const size = (name: string) => Number.parseInt(value(name), 10);
  const operand = value("Operand") === "f16" ? "f16" : "f32";
  return { operand, m: size("MATRIX_M"), n: size("MATRIX_N"), k: size("MATRIX_K") };
}

/** The same shader with the functions of matrix_tiles_emulated.wgsl. */
function emulate(code: string, config: MatrixConfig, fault: Fault | undefined): string {
  const { operand, m, n, k } = config;
  const text = specialize("emulated matrices", emulated, {
    // As many as a tile has panels: on wide subgroups a kernel counts on more.
    ...{ HALF_OPERANDS: operand === "f16", SUBGROUPS: 8 },
    ...{ MATRIX_M: m, MATRIX_N: n, MATRIX_K: k },
  });
  // The text of matrix_tiles.wgsl stands in front of the kernel's header.
  const end = "subgroupMatrixStore<row_major>(&products, at, product, PRODUCT_STRIDE);\n}\n";
  const kernel = code.slice(code.indexOf(end) + end.length);
  const [sound, faulty] = fault === undefined ? ["", ""] : FAULTS[fault];
  return `${text.replace(sound, faulty)}\n${kernel}`;
}
