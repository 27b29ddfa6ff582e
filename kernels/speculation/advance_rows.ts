import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./advance_rows.wgsl?raw";

const kernel = new Kernel({
  name: "speculation/advance_rows",
  source,
  buffers: ["entries", "page_tables", "best", "rows", "ends", "draws", "ids"],
  params: ["sequences", "first_id", "page_size", "padding_slot", "padding_page"],
});

const WORKGROUP_SIZE = 64;

export interface AdvanceRowsOptions {
  /** `[sequences, ENTRY_WORDS]` u32, as `acceptRows` takes them */
  readonly entries: Tensor;
  /** `[..]` page numbers */
  readonly pageTables: Tensor;
  /** `[sequences]` u32: the next draft of each */
  readonly best: Tensor;
  /** `[sequences]` of four u32: source, position, slot, first page-table entry */
  readonly rows: Tensor;
  /** `[sequences, END_WORDS]` u32, as `acceptRows` leaves them: the first word counts the drafts */
  readonly ends: Tensor;
  /** `[sequences, DRAW_WORDS]`: how the drafts of each are drawn */
  readonly draws: Tensor;
  /** `[..]` u32: the drafts, behind other ids: those of one turn of all sequences stand together */
  readonly ids: Tensor;
  readonly pageSize: number;
  /** Where rows of padding are in the cache, and their first page-table entry. */
  readonly paddingSlot: number;
  readonly paddingPage: number;
}

/**
 * Notes each sequence's draft and makes `rows` its row: one position on, or padding where the
 * sequence's pages hold no further one.
 *
 * Binds the tensors now; the returned function records one launch over `sequences` sequences, whose
 * drafts start at id `firstId`.
 */
export function advanceRows(
  recorder: Recorder,
  options: AdvanceRowsOptions,
): (sequences: number, firstId: number) => void {
  const { entries, pageTables, best, rows, ends, draws, ids } = options;
  const { pageSize, paddingSlot, paddingPage } = options;
  const bound = kernel.bind(
    recorder,
    { entries, page_tables: pageTables, best, rows, ends, draws, ids },
    {
      constants: { WORKGROUP_SIZE },
      params: { page_size: pageSize, padding_slot: paddingSlot, padding_page: paddingPage },
      cost: ({ param }) => ({ bytes: 68 * param("sequences"), flops: 0 }),
    },
  );
  return (sequences, firstId) => {
    bound.set("sequences", sequences);
    bound.set("first_id", firstId);
    bound.record(Math.ceil(sequences / WORKGROUP_SIZE));
  };
}
