import { expect, test } from "vitest";
import { layoutFor } from "../../../kernels/linear/weights/layout.ts";
import { tuneAttention, waysOf } from "../../../kernels/tune_attention.ts";
import { requireTuning } from "../../../src/gpu/require_tuning.ts";
import { attentionTuning, PLAIN_TUNING, tuningFor } from "../../../src/gpu/tuning.ts";
import { device, fullTest } from "../../support/devices/gpu.ts";

// Dozens of pipelines.
test.skipIf(!fullTest)("finds a way to share out attention that may be stored", async () => {
  const attention = await tuneAttention(device, { keys: 320, milliseconds: 1 });
  const tuning = { ...PLAIN_TUNING, attention };
  expect(requireTuning(JSON.parse(JSON.stringify(tuning)))).toEqual(tuning);
});

/** What an adapter tells, whose subgroups are of several sizes. */
function askable(most: number): GPUDevice {
  const sizes = { subgroupMinSize: 16, subgroupMaxSize: most };
  const adapterInfo = { vendor: "amd", architecture: "", device: "", description: "", ...sizes };
  const features = new Set(["subgroups", "subgroup-size-control"]);
  return { adapterInfo, features } as unknown as GPUDevice;
}

test.each([
  [64, [8, 16, 32], [32, 16]],
  [32, [16], [16]],
  [64, [], []],
  [32, [8, 16, 32], [32, 16]],
])(
  "where sizes up to %s may be asked for and %j work, those are tried",
  async (most, good, tried) => {
    const card = askable(most);
    const known = attentionTuning(card.adapterInfo);
    const ways = await waysOf(card, known, async (lanes) => good.includes(lanes));
    const asking = ways.filter(({ subgroups }) => subgroups);
    expect(asking.map(({ lanes }) => lanes)).toEqual(tried);
    expect(ways.slice(asking.length).map(({ lanes }) => lanes)).toEqual([8, 16, 32]);
    for (const attention of asking) {
      // A stored one is taken back, and asks for the same.
      const stored = { ...tuningFor(card.adapterInfo), attention };
      const tuning = requireTuning(JSON.parse(JSON.stringify(stored)));
      expect(layoutFor(card, tuning).askedSubgroupSize).toBe(attention.lanes);
    }
    if (good.includes(known.lanes) && asking.length > 0) expect(ways[0]).toEqual(known);
  },
);
