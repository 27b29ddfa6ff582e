import { KernelError } from "../../src/errors.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import type { GqaAttentionOptions } from "./gqa_decode.ts";

const NAME = "attention/gqa_prefill";

/** Rows of an item at most; they are of one sequence and their positions consecutive. */
export const GQA_PREFILL_ROW_TILE = 8;

export interface GqaPrefillOptions extends GqaAttentionOptions {
  /** `[items, 8]` u32: first row, row count (at most `GQA_PREFILL_ROW_TILE`), six unused */
  readonly items: Tensor;
}

/**
 * Grouped-query attention of prompt rows over the keys they see, with the bits of `gqaDecode`.
 *
 * Binds the tensors now; the returned function records one launch over `items` items of the list.
 */
export function gqaPrefill(
  _recorder: Recorder,
  _options: GqaPrefillOptions,
): (firstItem: number, items: number) => void {
  throw new KernelError(NAME, "it has no kernel");
}
