import { defineCheck } from "../check.ts";
import { moveEntries } from "./move_entries.ts";

interface Shape {
  readonly slots: number;
  /** Words of an entry. */
  readonly words: number;
  /** Slots from and to, of each run in order. */
  readonly runs: readonly (readonly (readonly [from: number, to: number])[])[];
}

const movesOf = ({ runs }: Shape) => runs.flat();

export default defineCheck<Shape>({
  name: "cache/move_entries",
  cases: [
    // A workgroup and a bit; an entry that is written once it has moved; places that change owners.
    {
      slots: 20,
      words: 70,
      runs: [
        [
          [4, 3],
          [6, 4],
          [7, 6],
        ],
        [[12, 9]],
        [
          [18, 15],
          [19, 16],
        ],
      ],
    },
    { slots: 3, words: 5, runs: [[[2, 0]]] },
    {
      slots: 4096,
      words: 288,
      runs: Array.from({ length: 64 }, (_, s) =>
        Array.from({ length: 4 }, (_, i) => [s * 64 + 9 + 3 * i, s * 64 + 5 + i] as const),
      ),
    },
  ],
  tunings: [{}],
  tolerance: 0,
  bytes: (shape) => 8 * shape.words * movesOf(shape).length,
  flops: () => 0,
  mutants: [
    { name: "only the first workgroup moves", replace: "group.x * WORKGROUP_SIZE", with: "0u" },
    { name: "every run is the first", replace: "runs[group.y]", with: "runs[0]" },
    {
      name: "the last move is left out",
      replace: "m < run.x + run.y",
      with: "m + 1u < run.x + run.y",
    },
    { name: "every run starts at the first move", replace: "var m = run.x;", with: "var m = 0u;" },
    {
      name: "entries move back",
      replace: "moves[m].y * params.words",
      with: "moves[m].x * params.words",
    },
    { name: "words beyond an entry move", replace: "word >= params.words", with: "false" },
    { name: "entries lie closer", replace: "moves[m].x * params.words", with: "moves[m].x * 64u" },
    {
      name: "the moves of a run are made backwards",
      replace: "cache[moves[m].y * params.words + word] = cache[moves[m].x * params.words + word];",
      with: "let n = 2u * run.x + run.y - 1u - m; cache[moves[n].y * params.words + word] = cache[moves[n].x * params.words + word];",
    },
  ],

  inputs(shape, random) {
    const moves = movesOf(shape);
    let first = 0;
    const runs = shape.runs.flatMap(({ length }) => {
      first += length;
      return [first - length, length];
    });
    return {
      runs: Uint32Array.from(runs),
      moves: Uint32Array.from(moves.flat()),
      // Of every kind of word: NaN, too.
      cache: Uint32Array.from({ length: shape.slots * shape.words }, () => random() * 2 ** 32),
    };
  },

  reference(shape, { cache }) {
    const { words } = shape;
    const want = Uint32Array.from(cache!);
    for (const [from, to] of movesOf(shape)) {
      want.copyWithin(to * words, from * words, (from + 1) * words);
    }
    return { cache: want };
  },

  bind(recorder, shape, tensors) {
    const launch = moveEntries(recorder, {
      runs: tensors.runs!,
      moves: tensors.moves!,
      cache: tensors.cache!,
      words: shape.words,
    });
    return () => launch(shape.runs.length, movesOf(shape).length);
  },
});
