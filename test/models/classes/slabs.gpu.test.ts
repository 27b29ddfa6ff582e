import { describe, expect, test } from "vitest";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import { smallestCaseOnly } from "../../support/devices/gpu.ts";
import { EMBEDDED_MODEL } from "../../support/engines/engine.ts";
import { ModelSession } from "../../support/engines/model_session.ts";

/** Less than the embedding, the head and the experts of a layer take, each on its own. */
const SMALL_BINDING = 540_000;
const TOKENS = [0, 2027, 559, 36, 2028];

async function promptBits(maxBindingSize?: number) {
  const session = await ModelSession.open(folderSource(EMBEDDED_MODEL), {
    maxRowsPerStep: 32,
    maxTotalTokens: 256,
    ...(maxBindingSize !== undefined && { maxBindingSize }),
  });
  const logits = await session.prefill(session.sequence(TOKENS));
  session.close();
  return logits.map((row) => new Uint32Array(row.buffer));
}

describe.skipIf(smallestCaseOnly)("tensors over the binding limit", () => {
  test("embedding, head and experts in slabs give the same bits", async () => {
    expect(await promptBits(SMALL_BINDING)).toEqual(await promptBits());
  });

  test("a tensor that cannot be split is refused and named", async () => {
    await expect(promptBits(100_000)).rejects.toThrow(/binds at most 100000 bytes at once/);
  });
});
