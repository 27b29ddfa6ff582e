/**
 * One matrix for one promise: tokens and bits of log-probabilities depend on the request alone, not
 * on how the engine came to them. Every variant is compared with the same baseline, and shows that
 * what it is named after has happened. A new one is one more entry of
 * `test/support/exactness/variants.ts`, those with drafts and of prompts that are computed apart of
 * the files beside it. `test/engine/images/image_exactness.gpu.test.ts` has the same of requests with images.
 */
import { APART_VARIANTS } from "../support/exactness/apart_variants.ts";
import { DRAFT_VARIANTS } from "../support/exactness/draft_variants.ts";
import { GROUP_VARIANTS } from "../support/exactness/group_variants.ts";
import { testExactness } from "../support/exactness/matrix.ts";
import { OVERLAP_VARIANTS } from "../support/exactness/overlap_variants.ts";
import { VARIANTS } from "../support/exactness/variants.ts";

testExactness([
  ...VARIANTS,
  ...GROUP_VARIANTS,
  ...OVERLAP_VARIANTS,
  ...DRAFT_VARIANTS,
  ...APART_VARIANTS,
]);
