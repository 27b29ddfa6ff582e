import { emulatedTiles, MATRIX_CONFIGS } from "../../linear/checks/check_matrix.ts";
import { TREE_MUTANTS } from "../check_tree_rows.ts";
import { mlaTreesCheck } from "./check_mla_trees.ts";
import check from "./mla_decode_matrix.check.ts";
import { mlaDecodeMatrix } from "./mla_decode_matrix.ts";

export default mlaTreesCheck(check, {
  name: "attention/mla_decode_matrix of trees",
  // Emulated matrices compile for long, and slots are found as they are for mla_decode.
  caseCount: 1,
  mutants: TREE_MUTANTS.slice(0, 1),
  tunings: [{ workgroup: 128, subgroups: 4 }],
  path: "rows[row].w",
  bind: (recorder, own, tuning) =>
    mlaDecodeMatrix(recorder, {
      ...own,
      tiles: emulatedTiles(MATRIX_CONFIGS["f32 8x8x8"], tuning),
    }),
});
