import { TREE_MUTANTS } from "../check_tree_rows.ts";
import { exchangeOptions } from "../check_tuning.ts";
import { mlaTreesCheck } from "./check_mla_trees.ts";
import check from "./mla_decode.check.ts";
import { mlaDecode } from "./mla_decode.ts";

export default mlaTreesCheck(check, {
  name: "attention/mla_decode of trees",
  tunings: [{ subgroups: 1 }, {}],
  mutants: TREE_MUTANTS,
  path: "rows[members.x].w",
  bind: (recorder, own, tuning) =>
    mlaDecode(recorder, { ...own, ...exchangeOptions(recorder.device, tuning) }),
});
