/** The matrix of exactness with requests that have images: beside each other, and beside texts. */
import { describe } from "vitest";
import { fullTest } from "../../support/devices/gpu.ts";
import { VISION_MODEL, VISION_MODELS } from "../../support/engines/vision_engine.ts";
import { APART_VARIANTS, LONG_APART_VARIANTS } from "../../support/exactness/apart_variants.ts";
import { DRAFT_VARIANTS, LONG_DRAFT_VARIANTS } from "../../support/exactness/draft_variants.ts";
import { testExactness } from "../../support/exactness/matrix.ts";
import { VARIANTS } from "../../support/exactness/variants.ts";
import { visionExactModel } from "../../support/exactness/vision_models.ts";

/** Those that have images meet what they meet nowhere else; the others with WISP_TEST_FULL=1. */
const SHORT = [
  "chunks of 7, pages of 3",
  "mixed chunks",
  "prompts cached, pages of 16",
  "retracted, kept in host memory",
  "retracted without a prefix cache, computed again",
  "32 at once, on two ranks",
  "everything at once",
  "32 at once, with drafts",
  "prompts computed apart, in chunks of 7, pages of 3",
  "prompts computed apart, asked twice, cached on both sides",
];
/** Of the models beside the first. */
const SHORTEST = ["32 at once, on two ranks", "prompts computed apart, in chunks of 7, pages of 3"];

/** Of those with networks that draft the ones that are whole models, which read no images. */
const long = [...LONG_DRAFT_VARIANTS, ...LONG_APART_VARIANTS].filter(
  ({ drafts }) => drafts === "model" || drafts === "model trees",
);
const all = [...VARIANTS, ...DRAFT_VARIANTS, ...APART_VARIANTS, ...long];
const named = (names: readonly string[]) =>
  fullTest ? all : all.filter(({ name }) => names.includes(name));
const [first, ...others] = VISION_MODELS.map(visionExactModel);

describe.skipIf(VISION_MODEL === undefined)("(needs ../shared/data)", () => {
  testExactness(named(SHORT), [first!]);
  testExactness(named(SHORTEST), others);
});
