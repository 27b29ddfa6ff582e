import { expect, test, vi } from "vitest";
import type { StepReport } from "../../../src/engine/step/step_report.ts";
import { device } from "../../support/devices/gpu.ts";
import { chat, openEngine } from "../../support/engines/engine.ts";

const CREATORS = ["createBuffer", "createBindGroup", "createComputePipelineAsync"] as const;

test("decoding creates no buffer, bind group or pipeline, and submits once a step", async () => {
  const steps: StepReport[] = [];
  const engine = await openEngine({ pageSize: 16, onStep: (step) => steps.push(step) });
  const sampling = { temperature: 0, maxNewTokens: 60, ignoreEos: true };
  const streams = ["Hello!", "Who are you?"].map((text) =>
    engine.generate({ messages: chat(text), sampling }),
  );
  let submits = 0;
  const { submit } = device.queue;
  device.queue.submit = (buffers) => {
    submits += 1;
    return submit.call(device.queue, buffers);
  };
  // Past the prompts, with both sequences decoding.
  for (let i = 0; i < 5; i++) await Promise.all(streams.map((stream) => stream.next()));

  const creators = CREATORS.map((name) => vi.spyOn(device, name));
  try {
    for (let i = 0; i < 30; i++) await Promise.all(streams.map((stream) => stream.next()));
    for (const creator of creators) expect(creator).not.toHaveBeenCalled();
  } finally {
    for (const creator of creators) creator.mockRestore();
  }
  await Promise.all(streams.map(readToEnd));
  await engine.close();
  Reflect.deleteProperty(device.queue, "submit");
  expect(steps.length).toBeGreaterThan(59);
  expect(submits).toBe(steps.length);
});

async function readToEnd(stream: AsyncIterator<unknown>): Promise<void> {
  while ((await stream.next()).done !== true) {
    // What it says is of no interest here.
  }
}
