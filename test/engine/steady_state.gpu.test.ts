import { expect, test } from "vitest";
import { chat, openEngine } from "../support/engine.ts";
import { device } from "../support/gpu.ts";

const CREATORS = ["createBuffer", "createBindGroup", "createComputePipelineAsync"] as const;

test("decoding creates no buffer, bind group or pipeline, and submits once a step", async () => {
  const engine = await openEngine({ pageSize: 16 });
  const sampling = { temperature: 0, maxNewTokens: 60, ignoreEos: true };
  const streams = ["Hello!", "Who are you?"].map((text) =>
    engine.generate({ messages: chat(text), sampling }),
  );
  // Past the prompts, with both sequences decoding.
  for (let i = 0; i < 5; i++) await Promise.all(streams.map((stream) => stream.next()));

  const calls: string[] = [];
  let submits = 0;
  const { submit } = device.queue;
  device.queue.submit = (buffers) => {
    submits += 1;
    return submit.call(device.queue, buffers);
  };
  for (const name of CREATORS) {
    const original = device[name] as (...args: unknown[]) => unknown;
    Object.defineProperty(device, name, {
      configurable: true,
      value: (...args: unknown[]) => {
        calls.push(name);
        return original.apply(device, args);
      },
    });
  }
  try {
    for (let i = 0; i < 30; i++) await Promise.all(streams.map((stream) => stream.next()));
  } finally {
    for (const name of CREATORS) Reflect.deleteProperty(device, name);
    Reflect.deleteProperty(device.queue, "submit");
  }
  expect(calls).toEqual([]);
  // The step that is under way when the counting starts or stops may count or not.
  expect(Math.abs(submits - 30)).toBeLessThanOrEqual(1);
  await engine.close();
});
