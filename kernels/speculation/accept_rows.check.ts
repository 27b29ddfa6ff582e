import { defineCheck } from "../check.ts";
import { DRAW_WORDS } from "../sampling/sample.ts";
import { acceptRows, END_WORDS, ENTRY_WORDS } from "./accept_rows.ts";

interface Shape {
  /** Of each sequence: its rows of logits, and how many drafts agree. */
  readonly sequences: readonly (readonly [count: number, agreeing: number])[];
}

const PAGES = 9;

/** Rows of the step stand in the reverse order of their logits, with one in between. */
const rowOf = (logits: number, i: number) => 2 * (logits - 1 - i) + 1;
const logitsOf = ({ sequences }: Shape) => sequences.reduce((sum, [count]) => sum + count, 0);

export default defineCheck<Shape>({
  name: "speculation/accept_rows",
  cases: [
    {
      sequences: [
        [4, 3],
        [4, 0],
        [1, 0],
        [4, 2],
        [3, 1],
      ],
    },
    // Several workgroups.
    { sequences: Array.from({ length: 150 }, (_, i) => [1 + (i % 5), i % (1 + (i % 5))] as const) },
  ],
  tunings: [{}],
  tolerance: 0,
  bytes: ({ sequences }) => 76 * sequences.length,
  flops: () => 0,
  mutants: [
    {
      name: "one more sequence",
      replace: "sequence >= params.sequences",
      with: "sequence > params.sequences",
    },
    { name: "every draft is accepted", replace: "draft != sampled[last]", with: "false" },
    { name: "no draft is accepted", replace: "draft != sampled[last]", with: "true" },
    {
      name: "drafts are compared with their own row's token",
      replace: "draft != sampled[last]",
      with: "draft != sampled[entry.first + i]",
    },
    { name: "a wrong draft is stepped over", replace: "{ break; }", with: "{ continue; }" },
    {
      name: "the last draft is left out",
      replace: "i < entry.count",
      with: "i + 1u < entry.count",
    },
    {
      name: "rows stand in the order of their logits",
      replace: "let row = logit_rows[last]",
      with: "let row = last",
    },
    {
      name: "drafts are looked for in the order of logits",
      replace: "rows[logit_rows[entry.first + i]].source",
      with: "rows[entry.first + i].source",
    },
    { name: "pages are lost", replace: "rows[row].first_page)", with: "0u)" },
    {
      name: "drafts have the positions of the tokens before them",
      replace: "position + 2u",
      with: "position + 1u",
    },
    { name: "drafts are counted from 1", replace: "End(0u, sampled", with: "End(1u, sampled" },
    {
      name: "the first token is the newest",
      replace: "sampled[last],",
      with: "sampled[entry.first],",
    },
    {
      name: "the newest token stands at its row",
      replace: "sampled[last], position + 1u",
      with: "sampled[last], position",
    },
    {
      name: "one workgroup only",
      replace: "sequence >= params.sequences",
      with: "sequence >= min(params.sequences, 64u)",
      case: 1,
    },
  ],

  inputs(shape, random) {
    const logits = logitsOf(shape);
    const sampled = Uint32Array.from({ length: logits }, () => random() * 1000);
    const rows = Uint32Array.from({ length: 8 * logits }, () => random() * 1000);
    const entries: number[] = [];
    let first = 0;
    for (const [count, agreeing] of shape.sequences) {
      entries.push(first, count, 64, 0);
      for (let i = 1; i < count; i++) {
        const before = sampled[first + Math.min(i - 1, agreeing)]!;
        // Behind the first wrong draft come tokens that its row's would have been right with.
        const source = i === agreeing + 1 ? before + 1 : before;
        rows[rowOf(logits, first + i) * 4] = source;
      }
      first += count;
    }
    return {
      entries: Uint32Array.from([...entries, ...Array.from({ length: ENTRY_WORDS }, () => 0)]),
      logit_rows: Uint32Array.from({ length: logits }, (_, i) => rowOf(logits, i)),
      rows: rows.map((value, i) => (i % 4 === 3 ? 1 + (value % PAGES) : value)),
      sampled,
      // One more than there are: it must stay as it is.
      ends: new Uint32Array((shape.sequences.length + 1) * END_WORDS).fill(7),
      draws: Uint32Array.from({ length: DRAW_WORDS * shape.sequences.length }, (_, i) => 100 + i),
    };
  },

  reference(shape, { logit_rows: logitRows, rows, sampled, ends: before, draws: given }) {
    const last: number[] = [];
    const next: number[] = [];
    const ends = Uint32Array.from(before!);
    const draws = Uint32Array.from(given!);
    let first = 0;
    for (const [sequence, [count, agreeing]] of shape.sequences.entries()) {
      const row = logitRows![first + agreeing]!;
      const position = rows![row * 4 + 1]!;
      ends.set([0, sampled![first + agreeing]!, position + 1], sequence * END_WORDS);
      draws[(sequence + 1) * DRAW_WORDS - 1] = position + 2;
      last.push(row);
      next.push(0, ...rows!.subarray(row * 4 + 1, row * 4 + 4));
      first += count;
    }
    return {
      last_rows: Uint32Array.from(last),
      next_rows: Uint32Array.from(next),
      ends,
      draws,
    };
  },

  bind(recorder, { sequences }, tensors) {
    const launch = acceptRows(recorder, {
      entries: tensors.entries!,
      logitRows: tensors.logit_rows!,
      rows: tensors.rows!,
      sampled: tensors.sampled!,
      lastRows: tensors.last_rows!,
      nextRows: tensors.next_rows!,
      ends: tensors.ends!,
      draws: tensors.draws!,
    });
    return () => launch(sequences.length);
  },
});
