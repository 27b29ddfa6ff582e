import { defineCheck } from "../check.ts";
import { DRAW_WORDS } from "../sampling/sample.ts";
import { END_WORDS, ENTRY_WORDS } from "./accept_rows.ts";
import { advanceRows } from "./advance_rows.ts";

interface Shape {
  readonly sequences: number;
  readonly pageSize: number;
}

const FIRST_ID = 5;
/** Pages of a sequence's table. */
const PAGES = 4;
const PADDING_SLOT = 900;
const MOST_DRAFTED = 3;

const paddingPage = ({ sequences }: Shape) => sequences * PAGES;
/** Every third sequence has no room behind its row, every fifth is padding already. */
const isFull = (s: number) => s % 3 === 2;
const isPadding = (s: number) => s % 5 === 4;
/** In the middle of a page, at the end of one, at the start. */
const positionOf = ({ pageSize }: Shape, s: number) => (s * 3) % (2 * pageSize);
const idCount = ({ sequences }: Shape) => FIRST_ID + (MOST_DRAFTED + 1) * sequences;

export default defineCheck<Shape>({
  name: "speculation/advance_rows",
  cases: [
    { sequences: 7, pageSize: 4 },
    { sequences: 3, pageSize: 1 },
    { sequences: 150, pageSize: 16 }, // several workgroups
  ],
  tunings: [{}],
  tolerance: 0,
  bytes: ({ sequences }) => 68 * sequences,
  flops: () => 0,
  mutants: [
    {
      name: "one more sequence",
      replace: "sequence >= params.sequences",
      with: "sequence > params.sequences",
    },
    { name: "ids start at 0", replace: "params.first_id +", with: "" },
    {
      name: "every draft is the first",
      replace: "ends[sequence].drafts * params.sequences",
      with: "0u",
    },
    {
      name: "drafts are not counted",
      replace: "drafts += 1u",
      with: "drafts += 0u",
    },
    {
      name: "all drafts are drawn at one position",
      replace: "position += 1u",
      with: "position += 0u",
    },
    {
      name: "positions stay",
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
    { name: "the row's source is lost", replace: "Row(draft, position", with: "Row(0u, position" },
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
        ? [3, 0, PADDING_SLOT, paddingPage(shape)]
        : [3, positionOf(shape, s), 3, (sequences - 1 - s) * PAGES];
    return {
      entries: Uint32Array.from(all.flatMap((s) => [1, 1, positions(s), 0])),
      page_tables: Uint32Array.from({ length: sequences * PAGES + 1 }, () =>
        Math.floor((random() * 800) / pageSize),
      ),
      best: Uint32Array.from(all, () => random() * 1000),
      rows: Uint32Array.from(all.flatMap(rows)),
      ends: Uint32Array.from(all.flatMap((s) => [s % (MOST_DRAFTED + 1), 77, 78])),
      draws: Uint32Array.from({ length: DRAW_WORDS * (sequences + 1) }, (_, i) => 100 + i),
      ids: new Uint32Array(idCount(shape)).fill(1e6),
    };
  },

  reference(shape, inputs) {
    const { sequences, pageSize } = shape;
    const { page_tables: pageTables, best } = inputs;
    const rows = Uint32Array.from(inputs.rows!);
    const ends = Uint32Array.from(inputs.ends!);
    const draws = Uint32Array.from(inputs.draws!);
    const ids = Uint32Array.from(inputs.ids!);
    for (let s = 0; s < sequences; s++) {
      ids[FIRST_ID + ends[s * END_WORDS]! * sequences + s] = best![s]!;
      ends[s * END_WORDS]! += 1;
      draws[(s + 1) * DRAW_WORDS - 1]! += 1;
      const at = s * ENTRY_WORDS;
      if (isFull(s) || isPadding(s)) {
        rows.set([best![s]!, 0, PADDING_SLOT, paddingPage(shape)], at);
        continue;
      }
      const position = positionOf(shape, s) + 1;
      const firstPage = (sequences - 1 - s) * PAGES;
      const page = pageTables![firstPage + Math.floor(position / pageSize)]!;
      rows.set([best![s]!, position, page * pageSize + (position % pageSize), firstPage], at);
    }
    return { rows, ends, draws, ids };
  },

  bind(recorder, shape, tensors) {
    const launch = advanceRows(recorder, {
      entries: tensors.entries!,
      pageTables: tensors.page_tables!,
      best: tensors.best!,
      rows: tensors.rows!,
      ends: tensors.ends!,
      draws: tensors.draws!,
      ids: tensors.ids!,
      pageSize: shape.pageSize,
      paddingSlot: PADDING_SLOT,
      paddingPage: paddingPage(shape),
    });
    return () => launch(shape.sequences, FIRST_ID);
  },
});
