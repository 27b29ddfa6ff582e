/**
 * The products of matrices that an adapter lists, and the tiles that kernels are built of with them.
 *
 * @module
 */
import { adapterInfoOf, SUBGROUP_MATRIX } from "../../../src/gpu/device.ts";
import text from "../../common/matrix/matrix_tiles.wgsl?raw";
import { MATRIX_KERNELS } from "../../matrix_kernels.ts";
import type { MatrixClass } from "../matrix_class.ts";
import type { MatrixConfig } from "./matrix_tiles.ts";

/** An entry of an adapter's list, as Dawn names it. */
export interface SubgroupMatrixConfig {
  readonly componentType: string;
  readonly resultComponentType: string;
  readonly M: number;
  readonly N: number;
  readonly K: number;
}

/** Kernels stage rows and strips of 16, and at least 16 columns, at a time. */
const fits = ({ M, N, K }: SubgroupMatrixConfig) => [M, N, K].every((size) => 16 % size === 0);
const MOST_INVOCATIONS = 256;
const FEWEST_INVOCATIONS = 128;
/** As many as every adapter takes: the more there are, the more numbers are staged once for them all. */
const LINEAR_INVOCATIONS = 256;

/** Those of an adapter's products that kernels can be built of, the best first. */
export function matrixConfigs(listed: Iterable<SubgroupMatrixConfig>): MatrixConfig[] {
  const configs = [...listed]
    .filter((entry) => entry.resultComponentType === "f32" && fits(entry))
    .flatMap(({ componentType: operand, M: m, N: n, K: k }): MatrixConfig[] =>
      operand === "f32" || operand === "f16" ? [{ operand, m, n, k }] : [],
    );
  // Operands as they are before rounded ones; then the largest product, of which there are fewer.
  const size = ({ m, n, k }: MatrixConfig) => m * n * k;
  const rank = ({ operand }: MatrixConfig) => (operand === "f32" ? 0 : 1);
  return configs.toSorted((a, b) => rank(a) - rank(b) || size(b) - size(a));
}

type MatrixInfo = GPUAdapterInfo & {
  readonly subgroupMatrixConfigs?: Iterable<SubgroupMatrixConfig>;
};

/** What a device, or else its adapter, tells of its subgroup matrices; empty where it has none. */
export function listedConfigs(device: GPUDevice): readonly SubgroupMatrixConfig[] {
  if (!device.features.has(SUBGROUP_MATRIX)) return [];
  const [own, adapters] = [device.adapterInfo, adapterInfoOf(device)].map((info) => [
    ...((info as MatrixInfo).subgroupMatrixConfigs ?? []),
  ]) as [SubgroupMatrixConfig[], SubgroupMatrixConfig[]];
  return own.length > 0 ? own : adapters;
}

/**
 * Tiles of one configuration on a device with subgroups of at most `subgroupMaxSize` invocations:
 * Dawn wants workgroups of a multiple of that.
 */
export function matrixTiles(
  config: MatrixConfig,
  { subgroupMaxSize, decode }: { readonly subgroupMaxSize: number; readonly decode: boolean },
): MatrixClass {
  const wanted = 4 * subgroupMaxSize;
  const workgroup = Math.min(Math.max(wanted, FEWEST_INVOCATIONS), MOST_INVOCATIONS);
  return {
    config,
    decode,
    workgroup,
    linearWorkgroup: LINEAR_INVOCATIONS,
    text,
    constants: { Operand: config.operand },
    kernels: MATRIX_KERNELS,
    subgroups: workgroup / subgroupMaxSize,
  };
}
