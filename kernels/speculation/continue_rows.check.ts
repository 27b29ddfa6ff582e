import { defineCheck } from "../check.ts";
import { DRAW_WORDS } from "../sampling/sample.ts";
import { END_WORDS } from "./accept_rows.ts";
import { continueRows, STAYS } from "./continue_rows.ts";

interface Shape {
  /** Of each sequence: its rows; one of 0 goes on from nothing and has a row that stays. */
  readonly sequences: readonly number[];
  readonly pageSize: number;
}

const ROW_WORDS = 4;
/** Pages of a sequence's table. */
const PAGES = 6;
const FIRST_ID = 3;

/** Of each row: its sequence, and its number there. */
const rowsOf = ({ sequences }: Shape) =>
  sequences.flatMap((count, sequence) =>
    Array.from({ length: Math.max(count, 1) }, (_, draft) => ({ sequence, draft, count })),
  );
/** Sequences had other places in the step before, and logits have the reverse order of rows. */
const endOf = ({ sequences }: Shape, sequence: number) => sequences.length - 1 - sequence;
const idOf = ({ sequences }: Shape, sequence: number, draft: number) =>
  FIRST_ID + (draft - 1) * sequences.length + endOf({ sequences, pageSize: 1 }, sequence);
const positionOf = ({ pageSize }: Shape, end: number) => (end * 3) % (2 * pageSize);

export default defineCheck<Shape>({
  name: "speculation/continue_rows",
  cases: [
    { sequences: [4, 0, 1, 4, 2], pageSize: 4 },
    { sequences: [2, 2, 3], pageSize: 1 },
    { sequences: Array.from({ length: 60 }, (_, i) => i % 4), pageSize: 16 }, // several workgroups
  ],
  tunings: [{}],
  tolerance: 0,
  bytes: (shape) => 60 * rowsOf(shape).length,
  flops: () => 0,
  mutants: [
    { name: "one more row", replace: "row >= params.rows", with: "row > params.rows" },
    { name: "rows that stay are changed", replace: "entry.end == STAYS", with: "false" },
    { name: "every row has the newest token", replace: "entry.draft > 0u", with: "false" },
    { name: "no row has the newest token", replace: "entry.draft > 0u", with: "true" },
    {
      name: "drafts stand where the newest token does",
      replace: "end.position + entry.draft",
      with: "end.position",
    },
    {
      name: "all sequences have the first one's pages",
      replace: "page_tables[first_page +",
      with: "page_tables[0u +",
    },
    { name: "offsets are lost", replace: "+ position % params.page_size", with: "" },
    { name: "pages are lost", replace: "slot, first_page)", with: "slot, 0u)" },
    {
      name: "logits are in the order of rows",
      replace: "draws[entry.logit_row]",
      with: "draws[row]",
    },
    {
      name: "what is drawn stands where its row does",
      replace: "= position + 1u",
      with: "= position",
    },
    {
      name: "one workgroup only",
      replace: "row >= params.rows",
      with: "row >= min(params.rows, 64u)",
      case: 2,
    },
  ],

  inputs(shape, random) {
    const rows = rowsOf(shape);
    const { sequences, pageSize } = shape;
    const continued = rows.map(({ sequence, draft, count }, row) =>
      count === 0
        ? [STAYS, 1, 0, row]
        : [
            endOf(shape, sequence),
            draft,
            idOf(shape, sequence, Math.max(draft, 1)),
            rows.length - 1 - row,
          ],
    );
    // One more than there are: it must stay as it is.
    continued.push([0, 1, 0, rows.length]);
    return {
      continued: Uint32Array.from(continued.flat()),
      ends: Uint32Array.from(
        sequences.flatMap((_, end) => [7, 2000 + end, positionOf(shape, end)]),
      ),
      ids: Uint32Array.from({ length: FIRST_ID + 3 * sequences.length }, () => random() * 1000),
      page_tables: Uint32Array.from({ length: sequences.length * PAGES }, () =>
        Math.floor((random() * 800) / pageSize),
      ),
      rows: Uint32Array.from(
        [...rows, { sequence: 0 }].flatMap(({ sequence }) => [5, 6, 7, sequence * PAGES]),
      ),
      draws: Uint32Array.from({ length: DRAW_WORDS * (rows.length + 1) }, (_, i) => 100 + i),
    };
  },

  reference(shape, inputs) {
    const { page_tables: pageTables, ends, ids } = inputs;
    const rows = Uint32Array.from(inputs.rows!);
    const draws = Uint32Array.from(inputs.draws!);
    const all = rowsOf(shape);
    for (const [row, { sequence, draft, count }] of all.entries()) {
      if (count === 0) continue;
      const at = endOf(shape, sequence) * END_WORDS;
      const position = ends![at + 2]! + draft;
      const token = draft === 0 ? ends![at + 1]! : ids![idOf(shape, sequence, draft)]!;
      const page = pageTables![sequence * PAGES + Math.floor(position / shape.pageSize)]!;
      const slot = page * shape.pageSize + (position % shape.pageSize);
      rows.set([token, position, slot], row * ROW_WORDS);
      draws[(all.length - row) * DRAW_WORDS - 1] = position + 1;
    }
    return { rows, draws };
  },

  bind(recorder, shape, tensors) {
    const launch = continueRows(recorder, {
      continued: tensors.continued!,
      ends: tensors.ends!,
      ids: tensors.ids!,
      pageTables: tensors.page_tables!,
      rows: tensors.rows!,
      draws: tensors.draws!,
      pageSize: shape.pageSize,
    });
    return () => launch(rowsOf(shape).length);
  },
});
