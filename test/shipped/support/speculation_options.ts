/**
 * Tests of the options of drafts, of which servers have many.
 *
 * @module
 */
import { expect } from "vitest";
import type { ServingWisp } from "./wisp.ts";

/** @param second Of `secondArguments`. */
export function speculationTests(second: () => ServingWisp) {
  const echoed = async (name: string, value: unknown) => {
    const info = await (await second().get("/get_server_info")).json();
    expect((info as Readonly<Record<string, unknown>>)[name]).toEqual(value);
  };
  return {
    speculativeNumSteps: () => second().sees(/Speculation: NGRAM, up to 4 drafts/),
    speculativeEagleTopk: () => echoed("speculative_eagle_topk", 1),
    speculativeNumDraftTokens: () => echoed("speculative_num_draft_tokens", 5),
    speculativeAcceptThresholdSingle: () =>
      second().sees(/accept thresholds below 1 accept drafts that the model would not have drawn/),
    speculativeAcceptThresholdAcc: () => echoed("speculative_accept_threshold_acc", 0.9),
    speculativeNgramMinMatchWindowSize: () => echoed("speculative_ngram_min_match_window_size", 3),
    speculativeNgramMaxMatchWindowSize: () => echoed("speculative_ngram_max_match_window_size", 8),
    speculativeAdaptive: () => echoed("speculative_adaptive", "off"),
  };
}
