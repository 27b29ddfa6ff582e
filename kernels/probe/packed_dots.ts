import { validated } from "../../src/gpu/error_scope.ts";
import { Kernel, numberBindings } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./packed_dots.wgsl?raw";

export const PACKED_DOTS = 64;

const kernel = new Kernel({
  name: "probe/packed_dots",
  source,
  buffers: ["left", "right", "sums"],
  params: ["count"],
});

export interface PackedDotsOptions {
  /** `[64]` u32 */
  readonly left: Tensor;
  /** `[64]` u32 */
  readonly right: Tensor;
  /** `[64]` i32 */
  readonly sums: Tensor;
}

/** Whether WGSL has `dot4I8Packed` here: the only part of a language that is not a device's feature. */
export async function compilesPackedDots(device: GPUDevice): Promise<boolean> {
  const { invalid } = validated(device, () => {
    device.createShaderModule({ label: kernel.name, code: numberBindings(source) });
  });
  return (await invalid) === null;
}

/** Dot products of four signed bytes. Binds now; the returned function records the launch. */
export function packedDots(recorder: Recorder, tensors: PackedDotsOptions): () => void {
  const bound = kernel.bind(
    recorder,
    { ...tensors },
    {
      params: { count: PACKED_DOTS },
      cost: () => ({ bytes: 12 * PACKED_DOTS, flops: 8 * PACKED_DOTS }),
    },
  );
  return () => bound.record(1);
}

/** Words whose bytes are the extremes and everything between. */
export function packedDotsInputs(): Readonly<Record<"left" | "right", Uint32Array>> {
  const bytes = (step: number) =>
    Uint8Array.from({ length: 4 * PACKED_DOTS }, (_, i) => (i < 8 ? 128 - (i % 2) : i * step));
  return {
    left: new Uint32Array(bytes(7).buffer),
    right: new Uint32Array(bytes(29).buffer),
  };
}

/** What they are. */
export function packedDotsReference({ left, right }: ReturnType<typeof packedDotsInputs>) {
  const [a, b] = [new Int8Array(left.buffer), new Int8Array(right.buffer)];
  return Int32Array.from({ length: PACKED_DOTS }, (_, i) =>
    [0, 1, 2, 3].reduce((sum, byte) => sum + a[4 * i + byte]! * b[4 * i + byte]!, 0),
  );
}
