import { defineCheck } from "../check.ts";
import { ADJUST_WORDS, IN_PROMPT, writeAdjustment } from "./adjust.ts";
import { count } from "./count.ts";

interface Shape {
  readonly rows: number;
  readonly vocabulary: number;
}

/** Row `r` counts in another slot than its own, or not at all. */
const slotOf = ({ rows }: Shape, r: number) => (r % 3 === 2 ? undefined : (r + 1) % rows);
/** Items come in the reverse order of rows, and there is one less, of several. */
const rowOf = ({ rows }: Shape, i: number) => rows - 1 - i;
const itemCount = ({ rows }: Shape) => Math.max(rows - 1, 1);

const NEUTRAL = { repetition: 1, frequency: 0, presence: 0 };

export default defineCheck<Shape>({
  name: "sampling/count",
  cases: [
    { rows: 5, vocabulary: 7 },
    { rows: 150, vocabulary: 40 }, // several workgroups
    { rows: 32, vocabulary: 129280 }, // 671B model
  ],
  tunings: [{}],
  tolerance: 0,
  bytes: (shape) => itemCount(shape) * 16,
  flops: () => 0,
  mutants: [
    { name: "one more item", replace: "global.x >= params.items", with: "global.x > params.items" },
    {
      name: "the item's number is the row",
      replace: "ids[items[global.x].row]",
      with: "ids[global.x]",
    },
    { name: "the row is the slot", replace: "items[global.x].slot;", with: "items[global.x].row;" },
    { name: "the prompt bit is lost", replace: "+= 1u", with: "= 1u" },
    {
      name: "slots are a token too short",
      replace: "slot * params.vocabulary",
      with: "slot * (params.vocabulary - 1u)",
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
      writeAdjustment(items, i, { row, penalties, firstBias: 0, biasCount: 0 });
    }
    return {
      items: new Uint32Array(items.buffer),
      ids: Uint32Array.from({ length: rows }, () => random() * vocabulary),
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
      if (slot !== undefined) after[slot * shape.vocabulary + ids![row]!]! += 1;
    }
    return { counts: after };
  },

  bind(recorder, shape, { items, ids, counts }) {
    const { vocabulary } = shape;
    const launch = count(recorder, { items: items!, ids: ids!, counts: counts!, vocabulary });
    return () => launch(itemCount(shape));
  },
});
