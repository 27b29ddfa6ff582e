import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./start_rows.wgsl?raw";

const kernel = new Kernel({
  name: "speculation/start_rows",
  source,
  buffers: ["entries", "page_tables", "ends", "rows"],
  params: ["sequences", "page_size", "padding_slot", "padding_page"],
});

const WORKGROUP_SIZE = 64;

export interface StartRowsOptions {
  /** `[sequences, ENTRY_WORDS]` u32, as `acceptRows` takes them */
  readonly entries: Tensor;
  /** `[..]` page numbers */
  readonly pageTables: Tensor;
  /** `[sequences, END_WORDS]` u32, as `acceptRows` leaves them */
  readonly ends: Tensor;
  /** `[sequences]` of four u32, as `acceptRows` leaves them: source, position, slot, first page-table entry */
  readonly rows: Tensor;
  readonly pageSize: number;
  /** Where rows of padding are in the cache, and their first page-table entry. */
  readonly paddingSlot: number;
  readonly paddingPage: number;
}

/**
 * Makes `rows` those of the tokens that were drawn from them: one position on, or padding where the
 * sequence's pages hold no further one.
 *
 * Binds the tensors now; the returned function records one launch over `sequences` sequences.
 */
export function startRows(
  recorder: Recorder,
  options: StartRowsOptions,
): (sequences: number) => void {
  const { entries, pageTables, ends, rows, pageSize, paddingSlot, paddingPage } = options;
  const bound = kernel.bind(
    recorder,
    { entries, page_tables: pageTables, ends, rows },
    {
      constants: { WORKGROUP_SIZE },
      params: { page_size: pageSize, padding_slot: paddingSlot, padding_page: paddingPage },
      cost: ({ param }) => ({ bytes: 44 * param("sequences"), flops: 0 }),
    },
  );
  return (sequences) => {
    bound.set("sequences", sequences);
    bound.record(Math.ceil(sequences / WORKGROUP_SIZE));
  };
}
