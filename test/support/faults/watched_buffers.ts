/**
 * Which buffers of a device are there.
 *
 * @module
 */
import { vi } from "vitest";

/**
 * To be undone by `vi.restoreAllMocks`.
 *
 * @returns Says which buffers were made on a device since it was asked last, and not freed.
 */
export function watchBuffers(device: GPUDevice): () => string[] {
  const there = new Set<GPUBuffer>();
  const create = device.createBuffer.bind(device);
  vi.spyOn(device, "createBuffer").mockImplementation((descriptor) => {
    const buffer = create(descriptor);
    const destroy = buffer.destroy.bind(buffer);
    buffer.destroy = () => {
      there.delete(buffer);
      destroy();
      return undefined;
    };
    there.add(buffer);
    return buffer;
  });
  return () => {
    const labels = [...there].map(({ label }) => label);
    there.clear();
    return labels;
  };
}
