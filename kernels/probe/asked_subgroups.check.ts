import { defineCheck } from "../check.ts";
import {
  askedSubgroups,
  askedSubgroupsInputs,
  askedSubgroupsReference,
} from "./asked_subgroups.ts";

/** As many as the smallest subgroups that there are. */
const LANES = 4;

export default defineCheck({
  name: "probe/asked_subgroups",
  feature: "subgroups",
  cases: [{ step: 1 }, { step: 3 }],
  tunings: [{}],
  tolerance: 0,
  bytes: () => 16 * LANES,
  flops: () => LANES,
  mutants: [
    {
      name: "the first invocation's",
      replace: "subgroupMax(own)",
      with: "subgroupBroadcastFirst(own)",
    },
    { name: "the next one's", replace: "lane + params.step", with: "lane + 1u", case: 1 },
    {
      name: "the neighbour's",
      replace: "subgroupShuffleXor(own, params.step)",
      with: "subgroupShuffleXor(own, 1u)",
      case: 1,
    },
  ],
  inputs: () => ({ values: askedSubgroupsInputs() }),
  reference: ({ step }, { values }) => ({
    told: askedSubgroupsReference(values as Float32Array, { lanes: LANES, step }),
  }),
  bind: (recorder, { step }, { values, told }) =>
    askedSubgroups(recorder, { values: values!, told: told!, lanes: LANES, step }),
});
