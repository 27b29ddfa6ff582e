/**
 * The matrix of exactness with every other way for drafts to be made, verified, moved and chosen, and
 * for ranks to attend in groups.
 */
import { LONG_APART_VARIANTS } from "../../support/exactness/apart_variants.ts";
import { LONG_DRAFT_VARIANTS } from "../../support/exactness/draft_variants.ts";
import { LONG_GROUP_VARIANTS } from "../../support/exactness/group_variants.ts";
import { testExactness } from "../../support/exactness/matrix.ts";
import { LONG_OVERLAP_VARIANTS } from "../../support/exactness/overlap_variants.ts";

testExactness([
  ...LONG_DRAFT_VARIANTS,
  ...LONG_GROUP_VARIANTS,
  ...LONG_OVERLAP_VARIANTS,
  ...LONG_APART_VARIANTS,
]);
