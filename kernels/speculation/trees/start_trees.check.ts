import { NO_TREE, PATH_WORDS } from "../../attention/tree_paths.ts";
import { defineCheck } from "../../check.ts";
import { TREE_ENTRY_WORDS } from "./accept_trees.ts";
import { startTrees } from "./start_trees.ts";

interface Shape {
  readonly sequences: number;
  readonly pageSize: number;
}

/** Pages of a sequence's table. */
const PAGES = 6;
const PADDING_SLOT = 900;
const MAX_POSITIONS = 20;

const pagesWords = ({ sequences }: Shape) => sequences * PAGES + 1;
const firstPage = ({ sequences }: Shape, s: number) => (sequences - 1 - s) * PAGES;
/** Some have no place behind their path, some stand at the end of their context. */
const hasNoPlace = (s: number) => s % 5 === 2;
const isAtEnd = (s: number) => s % 5 === 4;
const positionOf = ({ pageSize }: Shape, s: number) =>
  isAtEnd(s) ? MAX_POSITIONS - 1 : (s * 3) % Math.min(2 * pageSize, MAX_POSITIONS - 2);
const tokenOf = (s: number) => 1000 + s;

export default defineCheck<Shape>({
  name: "speculation/trees/start_trees",
  cases: [
    { sequences: 7, pageSize: 4 },
    { sequences: 3, pageSize: 64 },
    { sequences: 150, pageSize: 16 }, // several workgroups
  ],
  tunings: [{}],
  tolerance: 0,
  bytes: ({ sequences }) => 88 * sequences,
  flops: () => 0,
  mutants: [
    {
      name: "one more sequence",
      replace: "sequence >= params.sequences",
      with: "sequence > params.sequences",
    },
    {
      name: "one workgroup only",
      replace: "sequence >= params.sequences",
      with: "sequence >= min(params.sequences, 64u)",
      case: 2,
    },
    { name: "the row stays where it is", replace: "entry.next;", with: "entry.position;" },
    {
      name: "the next step does not know of it",
      replace: "entries[sequence].position = position;",
      with: "",
    },
    {
      name: "places do not end",
      replace: "min(entry.places, params.max_positions)",
      with: "params.max_positions",
    },
    {
      name: "positions do not end",
      replace: "min(entry.places, params.max_positions)",
      with: "entry.places",
    },
    { name: "one place more", replace: "position < min", with: "position <= min" },
    { name: "the token is lost", replace: "Row(entry.token,", with: "Row(0u," },
    {
      name: "all sequences have one path",
      replace: "params.first_path + sequence * PATH_WORDS",
      with: "params.first_path",
    },
    {
      name: "paths stand in front of all",
      replace: "params.first_path + sequence",
      with: "sequence",
    },
    {
      name: "padding sees the sequence's pages",
      replace: "select(params.padding_page, entry.first_page, has_room)",
      with: "entry.first_page",
    },
    { name: "it follows a tree", replace: "path + 1u] = NO_TREE", with: "path + 1u] = position" },
    { name: "old nodes stay", replace: "page_tables[path + word] = 0u;", with: "" },
    {
      name: "all sequences have the first one's pages",
      replace: "page_tables[entry.first_page +",
      with: "page_tables[0u +",
    },
    {
      name: "pages have one place",
      replace: "page * params.page_size +",
      with: "page +",
    },
    { name: "offsets are lost", replace: "+ position % params.page_size", with: "" },
    { name: "padding has a place", replace: "0u, params.padding_slot", with: "0u, 0u" },
  ],

  inputs(shape, random) {
    const { sequences, pageSize } = shape;
    const all = Array.from({ length: sequences + 1 }, (_, s) => s);
    const entry = (s: number) => {
      const position = positionOf(shape, s);
      const places = position + (hasNoPlace(s) ? 1 : 9);
      const page = s < sequences ? firstPage(shape, s) : 0;
      return [7, 1, places, page, 5, position, 0, tokenOf(s), position + 1];
    };
    return {
      entries: Uint32Array.from(all.flatMap(entry)),
      rows: new Uint32Array(4 * all.length),
      page_tables: Uint32Array.from(
        { length: pagesWords(shape) + all.length * PATH_WORDS },
        () => 1 + Math.floor((random() * 800) / pageSize),
      ),
    };
  },

  reference(shape, inputs) {
    const { sequences, pageSize } = shape;
    const entries = Uint32Array.from(inputs.entries!);
    const rows = Uint32Array.from(inputs.rows!);
    const pageTables = Uint32Array.from(inputs.page_tables!);
    for (let s = 0; s < sequences; s++) {
      const position = positionOf(shape, s) + 1;
      const isThere = !hasNoPlace(s) && !isAtEnd(s);
      const path = pagesWords(shape) + s * PATH_WORDS;
      const page = pageTables[firstPage(shape, s) + Math.floor(position / pageSize)]!;
      const place = isThere
        ? [position, page * pageSize + (position % pageSize)]
        : [0, PADDING_SLOT];
      rows.set([tokenOf(s), ...place, path], 4 * s);
      const start = isThere ? firstPage(shape, s) : sequences * PAGES;
      pageTables.fill(0, path, path + PATH_WORDS);
      pageTables.set([start, NO_TREE], path);
      entries[s * TREE_ENTRY_WORDS + 5] = position;
    }
    return { entries, rows, page_tables: pageTables };
  },

  bind(recorder, shape, tensors) {
    const launch = startTrees(recorder, {
      entries: tensors.entries!,
      rows: tensors.rows!,
      pageTables: tensors.page_tables!,
      pageSize: shape.pageSize,
      maxPositions: MAX_POSITIONS,
      paddingSlot: PADDING_SLOT,
      paddingPage: shape.sequences * PAGES,
      firstPath: pagesWords(shape),
    });
    return () => launch(shape.sequences);
  },
});
