import { TABLE_FORMS } from "./check_forms.ts";
import { linearCheck } from "./check_linear.ts";

const SPLIT = TABLE_FORMS.findIndex(({ split }) => split > 1);
const typical = { dtype: "bf16", outColumn: 0, segmented: false } as const;

/** A linear in every form that some adapter's tuning has. */
export default linearCheck({
  name: "linear/linear forms",
  forms: TABLE_FORMS,
  cases: [
    // More groups than any form shares out at once, and a tail; no multiple of any tile.
    { ...typical, rows: 9, columns: 2221, outputs: 37, groupRows: 37, lanes: 8 },
    {
      ...typical,
      rows: 9,
      columns: 141,
      outputs: 133,
      groupRows: 133,
      lanes: 32,
      rowsPerLane: 4,
    },
  ],
  mutants: [
    {
      name: "the first group of each round counts for all",
      replace: "(group - first) * ROW_LANES",
      with: "0u",
      tuning: SPLIT,
    },
    {
      name: "sums are folded before they are there",
      replace: "min(first + invocation / ROW_LANES, groups - 1u)",
      with: "first",
      tuning: SPLIT,
    },
    {
      name: "invocations without rows write",
      replace: "return invocation < ROW_LANES * TOKEN_LANES;",
      with: "return true;",
      tuning: SPLIT,
    },
  ],
});
