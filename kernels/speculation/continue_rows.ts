import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./continue_rows.wgsl?raw";

const kernel = new Kernel({
  name: "speculation/continue_rows",
  source,
  buffers: ["continued", "ends", "ids", "page_tables", "rows", "draws"],
  params: ["rows", "page_size"],
});

const WORKGROUP_SIZE = 64;
/** Words of a row's entry: its sequence's end, its number behind that, its draft's id, its logits. */
export const CONTINUED_WORDS = 4;
/** In place of an end: the row is as the host has written it. */
export const STAYS = 0xffffffff;

export interface ContinueRowsOptions {
  /** `[rows, CONTINUED_WORDS]` u32 */
  readonly continued: Tensor;
  /** `[.., END_WORDS]` u32, as `acceptRows` has left them */
  readonly ends: Tensor;
  /** `[..]` u32: the drafts of the step before */
  readonly ids: Tensor;
  /** `[..]` page numbers */
  readonly pageTables: Tensor;
  /** `[rows]` of four u32: source, position, slot, first page-table entry, of which the last is read */
  readonly rows: Tensor;
  /** `[.., DRAW_WORDS]`: how the logits of each row are drawn from */
  readonly draws: Tensor;
  readonly pageSize: number;
}

/**
 * Writes token, position and slot of the rows that go on where the step before ended their sequences,
 * and the position of what is drawn from their logits. Their pages have to reach so far.
 *
 * Binds the tensors now; the returned function records one launch over `rows` rows.
 */
export function continueRows(
  recorder: Recorder,
  options: ContinueRowsOptions,
): (rows: number) => void {
  const { continued, ends, ids, pageTables, rows, draws, pageSize } = options;
  const bound = kernel.bind(
    recorder,
    { continued, ends, ids, page_tables: pageTables, rows, draws },
    {
      constants: { WORKGROUP_SIZE, STAYS },
      params: { page_size: pageSize },
      cost: ({ param }) => ({ bytes: 60 * param("rows"), flops: 0 }),
    },
  );
  return (count) => {
    bound.set("rows", count);
    bound.record(Math.ceil(count / WORKGROUP_SIZE));
  };
}
