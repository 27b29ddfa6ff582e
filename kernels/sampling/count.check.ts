import { defineCheck } from "../check.ts";
import { ADJUST_WORDS, IN_PROMPT, writeAdjustment } from "./adjust.ts";
import { count } from "./count.ts";

interface Shape {
  readonly rows: number;
  readonly vocabulary: number;
}

/** Every other four rows are one sequence's: a token, and drafts in the rows behind it. */
const GROUP = 4;
const draftCount = (r: number) => (Math.floor(r / GROUP) % 2 === 1 ? r % GROUP : 0);
/** How many of its drafts are what was sampled. */
const acceptedCount = (r: number) => Math.floor(r / (2 * GROUP)) % GROUP;

/** Row `r` counts in another slot than its own, or not at all; those of a sequence in one. */
const slotOf = ({ rows }: Shape, r: number) =>
  r % 3 === 2 && draftCount(r) === 0 ? undefined : (r - draftCount(r) + 1) % rows;
/** Items come in the reverse order of rows, and there is one less, of several. */
const rowOf = ({ rows }: Shape, i: number) => rows - 1 - i;
const itemCount = ({ rows }: Shape) => Math.max(rows - 1, 1);

const NEUTRAL = { repetition: 1, frequency: 0, presence: 0 };

export default defineCheck<Shape>({
  name: "sampling/count",
  cases: [
    { rows: 29, vocabulary: 7 },
    { rows: 150, vocabulary: 40 }, // several workgroups
    { rows: 32, vocabulary: 129280 }, // 671B model
  ],
  tunings: [{}],
  tolerance: 0,
  bytes: (shape) => itemCount(shape) * 16,
  flops: () => 0,
  mutants: [
    { name: "one more item", replace: "global.x >= params.items", with: "global.x > params.items" },
    { name: "the item's number is the row", replace: "ids[item.row]", with: "ids[global.x]" },
    {
      name: "the row is the slot",
      replace: "item.slot * params.vocabulary",
      with: "item.row * params.vocabulary",
    },
    {
      name: "slots are a token too short",
      replace: "item.slot * params.vocabulary",
      with: "item.slot * (params.vocabulary - 1u)",
    },
    { name: "tokens count twice", replace: "ids[item.row]], 1u", with: "ids[item.row]], 2u" },
    {
      name: "refused drafts count",
      replace: "!= draft.x { return false; }",
      with: "!= draft.x { }",
    },
    {
      name: "one draft is not looked at",
      replace: "var d = 0u; d < item.draft_count",
      with: "var d = 1u; d < item.draft_count",
    },
    {
      name: "drafts are those of the next item",
      replace: "item.first_bias - item.draft_count + d",
      with: "item.first_bias + d",
    },
    {
      name: "drafts are sampled by the rows in front, one by one",
      replace: "ids[draft.y]",
      with: "ids[item.row - item.draft_count + d]",
    },
    {
      name: "one workgroup only",
      replace: "global.x >= params.items",
      with: "global.x >= min(params.items, 64u)",
      case: 1,
    },
  ],

  inputs(shape, random) {
    const { rows, vocabulary } = shape;
    const items = new DataView(new ArrayBuffer(rows * ADJUST_WORDS * 4));
    for (let i = 0; i < rows; i++) {
      const row = rowOf(shape, i);
      const slot = slotOf(shape, row);
      const penalties = slot === undefined ? undefined : { ...NEUTRAL, slot };
      const place = { firstBias: row * GROUP + draftCount(row), draftCount: draftCount(row) };
      writeAdjustment(items, i, { row, penalties, ...place, biasCount: 0 });
    }
    const ids = Uint32Array.from({ length: rows }, () => random() * vocabulary);
    const drafts = new Uint32Array(rows * GROUP * 2);
    for (let row = 0; row < rows; row++) {
      for (let d = 0; d < draftCount(row); d++) {
        const isAccepted = d < acceptedCount(row);
        // Another sequence's row, that the first draft of a row is not sampled by.
        const from = (row - draftCount(row) + d + (d === 0 ? 0 : 2 * GROUP)) % rows;
        drafts.set([ids[from]! + (isAccepted ? 0 : 1), from], (row * GROUP + d) * 2);
      }
    }
    return {
      items: new Uint32Array(items.buffer),
      biases: drafts,
      ids,
      counts: Uint32Array.from({ length: rows * vocabulary }, () =>
        random() < 0.5 ? IN_PROMPT + 2 : Math.floor(random() * 4),
      ),
    };
  },

  reference(shape, { ids, counts }) {
    const after = Uint32Array.from(counts!);
    for (let i = 0; i < itemCount(shape); i++) {
      const row = rowOf(shape, i);
      const slot = slotOf(shape, row);
      if (draftCount(row) > acceptedCount(row)) continue;
      if (slot !== undefined) after[slot * shape.vocabulary + ids![row]!]! += 1;
    }
    return { counts: after };
  },

  bind(recorder, shape, { items, biases, ids, counts }) {
    const { vocabulary } = shape;
    const launch = count(recorder, {
      items: items!,
      biases: biases!,
      ids: ids!,
      counts: counts!,
      vocabulary,
    });
    return () => launch(itemCount(shape));
  },
});
