import { expect, test } from "vitest";
import { loadAttentionGroups } from "../../src/engine/groups/attention_groups.ts";
import { ReplicatedEngine } from "../../src/parallel/replicas/replicated_engine.ts";
import { EMBEDDED_MODEL } from "../support/checkpoints/embedded_model.ts";
import { folderSource } from "../support/checkpoints/folder_source.ts";
import { device } from "../support/devices/gpu.ts";
import { answer, CHATS, GREEDY } from "../support/engines/drafted_requests.ts";
import { chat, openEngine } from "../support/engines/engine.ts";

const CHAIN = { numSteps: 3, eagleTopk: 1, numDraftTokens: 4 };
const REQUESTS = CHATS.slice(0, 3).flatMap((text, i) => [
  { messages: chat(text), sampling: { ...GREEDY, maxNewTokens: 12 + 8*i }, logprobs: { topCount: 1 } },
  { messages: chat(text), sampling: { temperature: 1, seed: 5, maxNewTokens: 20 } },
]);

test.each([undefined, { ...CHAIN, algorithm: "EAGLE" as const }])("groups %j", async (speculation) => {
  const one = await openEngine({ speculation });
  const want = await Promise.all(REQUESTS.map((r) => answer(one, r)));
  await one.close();
  for (const [size, groups] of [[2, 2], [4, 2], [4,4]] as const) {
    const engines = await loadAttentionGroups(() => folderSource(EMBEDDED_MODEL), {
      device, maxTotalTokens: 8192, tensorParallelSize: size, attentionGroups: groups, speculation,
    });
    const engine = new ReplicatedEngine(engines);
    const got = await Promise.all(REQUESTS.map((r) => answer(engine, r)));
    expect(got).toEqual(want);
    await engine.close();
  }
});
