/**
 * Subgroup sizes that kernels ask for, where an adapter has several and lets them choose.
 *
 * @module
 */

/** WGSL's `@subgroup_size`. */
export const SUBGROUP_SIZE_CONTROL = "subgroup-size-control" as GPUFeatureName;

/** Whether kernels can ask for subgroups of `size` invocations here, and would not have them anyway. */
export function canAskFor({ features, adapterInfo }: GPUDevice, size: number): boolean {
  const { subgroupMinSize: smallest, subgroupMaxSize: largest } = adapterInfo;
  const lets = features.has("subgroups") && features.has(SUBGROUP_SIZE_CONTROL);
  return lets && smallest < largest && smallest <= size && size <= largest;
}

/** Code that asks for subgroups of `size` invocations. */
export function asking(code: string, size: number): string {
  const own = /^enable subgroups;/m.test(code) ? "" : "enable subgroups;\n";
  const entry = code.replace(/@compute\b/, `@compute @subgroup_size(${size})`);
  return `enable subgroup_size_control;\n${own}${entry}`;
}
