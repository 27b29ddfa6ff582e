import { Kernel } from "../../src/gpu/kernel.ts";
import type { Recorder } from "../../src/gpu/recorder.ts";
import type { Tensor } from "../../src/gpu/tensor.ts";
import source from "./accept_rows.wgsl?raw";

const kernel = new Kernel({
  name: "speculation/accept_rows",
  source,
  buffers: ["entries", "logit_rows", "rows", "sampled", "last_rows", "next_rows", "ends", "draws"],
  params: ["sequences"],
});

const WORKGROUP_SIZE = 64;
/** Words of an entry: first of its rows of logits, their count, positions that its pages hold, 0. */
export const ENTRY_WORDS = 4;
/** Words of an end: drafts behind the newest token, that token, its position. */
export const END_WORDS = 3;

export interface AcceptRowsOptions {
  /** `[sequences, ENTRY_WORDS]` u32 */
  readonly entries: Tensor;
  /** `[..]` u32: rows whose logits are wanted */
  readonly logitRows: Tensor;
  /** `[..]` of four u32: source, position, slot, first page-table entry; drafts are token ids */
  readonly rows: Tensor;
  /** `[..]` u32: the token drawn from each row of logits */
  readonly sampled: Tensor;
  /** `[sequences]` u32: the last accepted row of each */
  readonly lastRows: Tensor;
  /** `[sequences]` of four u32: the same row as `advanceRows` takes it */
  readonly nextRows: Tensor;
  /** `[sequences, END_WORDS]` u32: where each stands then */
  readonly ends: Tensor;
  /** `[sequences, DRAW_WORDS]`, as `writeDraw` fills it but for the position */
  readonly draws: Tensor;
}

/**
 * Finds the last row of each sequence whose draft is the token that was drawn before it, and starts
 * the drafts behind that row.
 *
 * Binds the tensors now; the returned function records one launch over `sequences` sequences, each
 * of one row of logits at least.
 */
export function acceptRows(
  recorder: Recorder,
  options: AcceptRowsOptions,
): (sequences: number) => void {
  const { entries, logitRows, rows, sampled, lastRows, nextRows, ends, draws } = options;
  const bound = kernel.bind(
    recorder,
    {
      entries,
      logit_rows: logitRows,
      rows,
      sampled,
      last_rows: lastRows,
      next_rows: nextRows,
      ends,
      draws,
    },
    {
      constants: { WORKGROUP_SIZE },
      cost: ({ param }) => ({ bytes: 76 * param("sequences"), flops: 0 }),
    },
  );
  return (sequences) => {
    bound.set("sequences", sequences);
    bound.record(Math.ceil(sequences / WORKGROUP_SIZE));
  };
}
