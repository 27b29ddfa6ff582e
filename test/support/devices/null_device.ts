/**
 * A device of Dawn's null backend: it checks shaders and makes pipelines, with every feature that
 * Dawn knows, and runs nothing.
 *
 * @module
 */
import { create, globals } from "webgpu";
import { SUBGROUP_MATRIX } from "../../../src/gpu/device.ts";

/** Held until the process ends: Dawn crashes when its GPU object is collected. */
const held: GPU[] = [];

/** Opens one that has subgroup matrices, and whatever they rest on. */
export async function openNullDevice(): Promise<GPUDevice> {
  const known = globalThis as unknown as Record<string, unknown>;
  for (const [name, value] of Object.entries(globals)) known[name] ??= value;
  const gpu = create(["enable-dawn-features=allow_unsafe_apis", "backend=null"]);
  held.push(gpu);
  const adapter = await gpu.requestAdapter();
  if (adapter === null) throw new Error("Dawn has no null backend here");
  return adapter.requestDevice({ requiredFeatures: [SUBGROUP_MATRIX, "subgroups", "shader-f16"] });
}
