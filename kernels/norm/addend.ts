/**
 * What a block of the model adds to the residual stream, as the norms after it take it.
 *
 * @module
 */
import type { Tensor } from "../../src/gpu/tensor.ts";

export type Addend =
  | {
      readonly kind: "row";
      /** `[rows, stride]` f32 */
      readonly tensor: Tensor;
    }
  | {
      readonly kind: "combine";
      /** `[rows * slots, stride]` f32: what the experts made of each row */
      readonly y: Tensor;
      /** `[rows, slots]` f32 */
      readonly weights: Tensor;
      readonly slots: number;
    };

/** What `addend.wgsl` needs of it. */
export interface BoundAddend {
  readonly tensors: { readonly addend: Tensor; readonly slot_weights: Tensor };
  readonly form: number;
  readonly slots: number;
  /** Rows that are read for a row of the stream. */
  readonly reads: number;
}

/** @param unused Any tensor that the launch only reads; stands in for bindings without a use. */
export function bindAddend(addend: Addend | undefined, unused: Tensor): BoundAddend {
  switch (addend?.kind) {
    case undefined:
      return { tensors: { addend: unused, slot_weights: unused }, form: 0, slots: 0, reads: 0 };
    case "row":
      return {
        tensors: { addend: addend.tensor, slot_weights: unused },
        form: 1,
        slots: 0,
        reads: 1,
      };
    case "combine": {
      const { y, weights, slots } = addend;
      return { tensors: { addend: y, slot_weights: weights }, form: 2, slots, reads: slots };
    }
  }
}
