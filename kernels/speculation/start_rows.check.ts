import { defineCheck } from "../check.ts";
import { END_WORDS, ENTRY_WORDS } from "./accept_rows.ts";
import { startRows } from "./start_rows.ts";

interface Shape {
  readonly sequences: number;
  readonly pageSize: number;
}

/** Pages of a sequence's table. */
const PAGES = 4;
const PADDING_SLOT = 900;

const paddingPage = ({ sequences }: Shape) => sequences * PAGES;
/** Every third sequence has no room behind its row, every fifth is padding already. */
const isFull = (s: number) => s % 3 === 2;
const isPadding = (s: number) => s % 5 === 4;
/** In the middle of a page, at the end of one, at the start. */
const positionOf = ({ pageSize }: Shape, s: number) => (s * 3) % (2 * pageSize);

export default defineCheck<Shape>({
  name: "speculation/start_rows",
  cases: [
    { sequences: 7, pageSize: 4 },
    { sequences: 3, pageSize: 1 },
    { sequences: 150, pageSize: 16 }, // several workgroups
  ],
  tunings: [{}],
  tolerance: 0,
  bytes: ({ sequences }) => 44 * sequences,
  flops: () => 0,
  mutants: [
    {
      name: "one more sequence",
      replace: "sequence >= params.sequences",
      with: "sequence > params.sequences",
    },
    {
      name: "the row stays where it is",
      replace: "rows[sequence].position + 1u",
      with: "rows[sequence].position",
    },
    { name: "one position more", replace: "position >= entries", with: "position > entries" },
    {
      name: "padding goes on",
      replace: "first_page == params.padding_page ||",
      with: "",
    },
    {
      name: "all sequences have the first one's pages",
      replace: "page_tables[first_page +",
      with: "page_tables[0u +",
    },
    { name: "offsets are lost", replace: "+ position % params.page_size", with: "" },
    { name: "the token is lost", replace: "Row(token, position", with: "Row(0u, position" },
    {
      name: "all sequences have the first one's token",
      replace: "ends[sequence].token",
      with: "ends[0].token",
    },
    {
      name: "one workgroup only",
      replace: "sequence >= params.sequences",
      with: "sequence >= min(params.sequences, 64u)",
      case: 2,
    },
  ],

  inputs(shape, random) {
    const { sequences, pageSize } = shape;
    const all = Array.from({ length: sequences + 1 }, (_, s) => s);
    const positions = (s: number) => positionOf(shape, s) + (isFull(s) ? 1 : 2);
    const rows = (s: number) =>
      isPadding(s)
        ? [0, 0, PADDING_SLOT, paddingPage(shape)]
        : [0, positionOf(shape, s), 3, (sequences - 1 - s) * PAGES];
    return {
      entries: Uint32Array.from(all.flatMap((s) => [1, 1, positions(s), 0])),
      page_tables: Uint32Array.from({ length: sequences * PAGES + 1 }, () =>
        Math.floor((random() * 800) / pageSize),
      ),
      ends: Uint32Array.from(
        all.flatMap((s) => [0, 1 + random() * 1000, positionOf(shape, s) + 1]),
      ),
      rows: Uint32Array.from(all.flatMap(rows)),
    };
  },

  reference(shape, inputs) {
    const { sequences, pageSize } = shape;
    const { page_tables: pageTables, ends } = inputs;
    const rows = Uint32Array.from(inputs.rows!);
    for (let s = 0; s < sequences; s++) {
      const token = ends![s * END_WORDS + 1]!;
      const at = s * ENTRY_WORDS;
      if (isFull(s) || isPadding(s)) {
        rows.set([token, 0, PADDING_SLOT, paddingPage(shape)], at);
        continue;
      }
      const position = positionOf(shape, s) + 1;
      const firstPage = (sequences - 1 - s) * PAGES;
      const page = pageTables![firstPage + Math.floor(position / pageSize)]!;
      rows.set([token, position, page * pageSize + (position % pageSize), firstPage], at);
    }
    return { rows };
  },

  bind(recorder, shape, tensors) {
    const launch = startRows(recorder, {
      entries: tensors.entries!,
      pageTables: tensors.page_tables!,
      ends: tensors.ends!,
      rows: tensors.rows!,
      pageSize: shape.pageSize,
      paddingSlot: PADDING_SLOT,
      paddingPage: paddingPage(shape),
    });
    return () => launch(shape.sequences);
  },
});
