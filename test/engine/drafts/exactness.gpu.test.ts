/** The matrix of exactness with every other way for drafts to be made, verified, moved and chosen. */
import { LONG_APART_VARIANTS } from "../../support/exactness/apart_variants.ts";
import { LONG_DRAFT_VARIANTS } from "../../support/exactness/draft_variants.ts";
import { testExactness } from "../../support/exactness/matrix.ts";

testExactness([...LONG_DRAFT_VARIANTS, ...LONG_APART_VARIANTS]);
