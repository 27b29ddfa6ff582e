import { expect, test } from "vitest";
import { layoutFor } from "../../../kernels/linear/weights/layout.ts";
import { ATTENTION_BACKENDS } from "../../../src/layers/attention/attention_backend.ts";
import { device } from "../../support/devices/gpu.ts";
import { complete, openEngine } from "../../support/engines/engine.ts";

const PROMPT = Array.from({ length: 21 }, (_, i) => 3 + ((i * 37) % 2000));

test("attention backends: the same bits, or a refusal by name", async () => {
  const works = (layoutFor(device).subgroupSize ?? 0) >= 8;
  const answers: unknown[] = [];
  for (const backend of ATTENTION_BACKENDS) {
    const loaded = openEngine({
      ...{ prefillAttentionBackend: "portable", decodeAttentionBackend: backend },
    });
    if (backend === "subgroup" && !works) {
      await expect(loaded).rejects.toThrow("Cannot use attention backend subgroup");
      continue;
    }
    const engine = await loaded;
    const sampling = { temperature: 0, ignoreEos: true, maxNewTokens: 4 };
    const { tokens, last } = await complete(engine, {
      ...{ tokens: PROMPT, sampling, logprobs: { topCount: 2 } },
    });
    answers.push([tokens, last.logprobs]);
    await engine.close();
  }
  for (const answer of answers) expect(answer).toEqual(answers[0]);
  expect(answers.length).toBe(works ? 3 : 2);
});

test("attention backends: a name that there is not is refused", async () => {
  const wrong = openEngine({ prefillAttentionBackend: "fast" as "auto" });
  await expect(wrong).rejects.toThrow(": it must be one of auto, subgroup");
});
