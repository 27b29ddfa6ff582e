import { describe, expect, test } from "vitest";
import { memorySource } from "../../../src/checkpoint/memory_source.ts";
import { inspectCheckpoint } from "../../../src/engine/load/inspect_checkpoint.ts";
import { formatReport } from "../../../src/node/commands/inspect_report.ts";
import * as configs from "../../support/checkpoints/vision_configs.ts";

const GIB = 2 ** 30;

const inspected = (config: object, deviceMemory = 8 * GIB) =>
  inspectCheckpoint(
    memorySource({ "config.json": new TextEncoder().encode(JSON.stringify(config)) }),
    { contextLength: 2048, deviceMemory: [deviceMemory] },
  );

const onlyVision = Object.entries(configs).filter(
  ([name, config]) => "architectures" in config && name !== "QWEN_2_5_VL_NEW",
);

describe("wisp inspect counts a vision tower", () => {
  test("of LLaVA-1.5-7B: its weights, and what one picture takes", async () => {
    const report = await inspected(configs.LLAVA_1_5);
    const [hidden, inner, patches, text] = [1024, 4096, 576, 4096];
    // Each layer: four square linears, two of the MLP, with biases; two norms. 23 of 24 are read.
    const layer = 4 * hidden * (hidden + 1) + 2 * hidden * inner + inner + hidden + 4 * hidden;
    const outer = hidden * 588 + hidden + 577 * hidden + 2 * hidden;
    const projector = text * (hidden + 1) + text * (text + 1);
    const parameters = 23 * layer + outer + projector;
    const { weightBytes, activationBytes } = report.vision!;
    // BF16, but biases, norms and tables in f32.
    expect(weightBytes / parameters).toBeGreaterThan(2);
    expect(weightBytes / parameters).toBeLessThan(2.02);
    const rows = (patches + 1) * (7 * hidden + inner);
    expect(activationBytes).toBe(4 * (rows + patches * 588 + 2 * patches * text));
    expect(formatReport(report)).toMatch(
      /^Vision tower +\d{3}\.\d MiB of the weights, 4\d\.\d MiB for a picture$/m,
    );
  });

  test.each(onlyVision)(
    "of %s, on a device that just holds it, and on none that does not",
    async (_, config) => {
      const { vision, weights, demand } = await inspected(config);
      const { gpuBytes } = weights[0]!;
      expect(vision!.weightBytes).toBeLessThan(gpuBytes!);
      const needed = gpuBytes! + vision!.activationBytes + demand.cacheBytes;
      const fits = async (bytes: number) => {
        const { weights: rows } = await inspected(config, Math.ceil(bytes / 0.88) + 8);
        return rows[0]!.devices[0]!.fit?.devices;
      };
      expect(await fits(needed)).toBe(1);
      expect(await fits(needed - vision!.activationBytes / 2)).not.toBe(1);
    },
  );
});

test("a model of text alone has none", async () => {
  const { vision } = await inspected({ ...configs.QWEN_TEXT, architectures: ["Qwen2ForCausalLM"] });
  expect(vision).toBeUndefined();
});
