import { defineCheck } from "../check.ts";
import { targetIds } from "./target_ids.ts";

interface Shape {
  readonly count: number;
  readonly vocabulary: number;
}

export default defineCheck<Shape>({
  name: "embedding/target_ids",
  cases: [
    { count: 5, vocabulary: 40 },
    { count: 150, vocabulary: 300 }, // several workgroups
  ],
  tunings: [{}],
  tolerance: 0,
  bytes: ({ count }) => 12 * count,
  flops: () => 0,
  mutants: [
    {
      name: "one more id",
      replace: "global.x >= params.count",
      with: "global.x > params.count",
    },
    { name: "ids are not looked up", replace: "table[ids[global.x]]", with: "table[global.x]" },
    {
      name: "one workgroup only",
      replace: "global.x >= params.count",
      with: "global.x >= min(params.count, 64u)",
      case: 1,
    },
  ],

  inputs({ count, vocabulary }, random) {
    return {
      table: Uint32Array.from({ length: vocabulary }, (_, i) => 7 + 3 * i),
      ids: Uint32Array.from({ length: count + 1 }, () => random() * vocabulary),
    };
  },

  reference({ count }, { table, ids }) {
    return { ids: Uint32Array.from(ids!, (id, i) => (i < count ? table![id]! : id)) };
  },

  bind(recorder, { count }, tensors) {
    const launch = targetIds(recorder, { table: tensors.table!, ids: tensors.ids! });
    return () => launch(count);
  },
});
