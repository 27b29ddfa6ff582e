/** Ranks that share a model draft what one draws: as many of their drafts are right. */
import { expect, test } from "vitest";
import type { LoadOptions } from "../../src/engine/load/load_options.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { smallestCaseOnly } from "../support/devices/gpu.ts";
import { answer, CHATS, GREEDY } from "../support/engines/drafted_requests.ts";
import { chat, openEngine } from "../support/engines/engine.ts";

const CHAIN = { numSteps: 3, eagleTopk: 1, numDraftTokens: 4 };
const TREE = { numSteps: 3, eagleTopk: 2, numDraftTokens: 6 };
const LOOSE = { acceptThresholdSingle: 0.3, acceptThresholdAcc: 0.5 };

const CASES: readonly (readonly [string, LoadOptions["speculation"], number])[] = [
  ["drafts of the module", { ...CHAIN, algorithm: "EAGLE" }, 4],
  ["trees of drafts of the module", { ...TREE, algorithm: "EAGLE" }, 2],
  ["drafts of the module, by thresholds", { ...CHAIN, ...LOOSE, algorithm: "EAGLE" }, 2],
  ["drafts of another model", { ...CHAIN, algorithm: "STANDALONE" }, 2],
];
const REQUESTS = CHATS.slice(0, 2).flatMap((text) => [
  { messages: chat(text), sampling: { ...GREEDY, maxNewTokens: 20 }, logprobs: { topCount: 1 } },
  { messages: chat(text), sampling: { temperature: 1, seed: 5, maxNewTokens: 20 } },
]);

test.each(smallestCaseOnly ? CASES.slice(1, 2) : CASES)("%s", async (_, speculation, ranks) => {
  const draftModel =
    speculation?.algorithm === "STANDALONE" ? folderSource(EMBEDDED_MODEL) : undefined;
  const outcome = async (tensorParallelSize: number) => {
    const engine = await openEngine({ speculation, draftModel, tensorParallelSize });
    const answers = [];
    for (const request of REQUESTS) answers.push(await answer(engine, request));
    await engine.close();
    return answers;
  };
  const alone = await outcome(1);
  const accepted = alone.reduce((sum, one) => sum + one.speculation!.acceptedDrafts, 0);
  expect(accepted).toBeGreaterThan(25);
  expect(await outcome(ranks)).toEqual(alone);
});
