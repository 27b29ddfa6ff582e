import { expect, test } from "vitest";
import { Checkpoint } from "../../../src/checkpoint/checkpoint.ts";
import { prepareLoad } from "../../../src/engine/load/prepare_load.ts";
import type { StartSizes } from "../../../src/engine/load/start_sizes.ts";
import { parseOptions } from "../../../src/node/options/option_parser.ts";
import { LAUNCH_OPTIONS } from "../../../src/node/options/options.ts";
import { startEngine } from "../../../src/node/serve/start_engine.ts";
import { quietReport } from "../../../src/node/serve/start_report.ts";
import { folderSource } from "../../support/checkpoints/folder_source.ts";
import { device } from "../../support/devices/gpu.ts";
import { chat, complete, EMBEDDED_MODEL, openEngine } from "../../support/engines/engine.ts";

/** Values that the specification shows for a server of many GPUs. */
const REFERENCE = {
  maxRunningRequests: 2048,
  chunkedPrefillSize: 524288,
  maxPrefillTokens: 32768,
  pageSize: 64,
  memFractionStatic: 0.849,
  maxDecodeBucket: 64,
};
const checkpoint = await Checkpoint.open(folderSource(EMBEDDED_MODEL));

test("a server's settings for many GPUs start here, with what this adapter can do", async () => {
  const sizes: StartSizes[] = [];
  const onPlan = (one: StartSizes) => sizes.push(one);
  const engine = await openEngine({ ...REFERENCE, onPlan });
  const messages = chat("What is the capital of Japan?");
  const { text } = await complete(engine, { messages, sampling: { temperature: 0 } });
  const { maxRunningRequests } = engine.status();
  await engine.close();
  expect(text).toBe("The capital of Japan is Tokyo.");
  expect(maxRunningRequests).toBe(128);
  expect(sizes.map(({ requests }) => requests)).toEqual([{ running: 128, bound: "rows" }]);
});

test("more sequences than an adapter binds are as many as it does", async () => {
  const { options, startSizes } = await prepareLoad(checkpoint, {
    ...{ device, maxRunningRequests: 100, maxBindingSize: 2 ** 20, maxTotalTokens: 256 },
  });
  const running = options.maxRunningRequests;
  expect(running).toBeLessThan(100);
  expect(startSizes.requests).toEqual({ running, bound: "binding" });
});

test("a context longer than the model's is refused with both, and why", async () => {
  const { values } = parseOptions(LAUNCH_OPTIONS, ["--context-length", "32768"]);
  await expect(startEngine(values, quietReport({ write: () => {} }))).rejects.toThrow(
    /^Cannot use option --context-length 32768: it must be a whole number from 2 to \d+, as the model is defined for no more$/,
  );
});
