import { performance } from "node:perf_hooks";
import { expect, test } from "vitest";
import { adapter, device, download, upload } from "../support/gpu.ts";

/** A pass that keeps the adapter busy: `rounds` multiply-adds for each of 2^18 values. */
function work(rounds: number): { readonly output: GPUBuffer; readonly submit: () => void } {
  const output = upload(new Float32Array(2 ** 18));
  const code = `
    @group(0) @binding(0) var<storage, read_write> x: array<f32>;
    @compute @workgroup_size(64) fn main(@builtin(global_invocation_id) id: vec3u) {
      var value = x[id.x];
      for (var i = 0u; i < ${rounds}u; i++) { value = value * 1.0001 + 0.5; }
      x[id.x] = value;
    }`;
  const pipeline = device.createComputePipeline({
    layout: "auto",
    compute: { module: device.createShaderModule({ code }) },
  });
  const group = device.createBindGroup({
    layout: pipeline.getBindGroupLayout(0),
    entries: [{ binding: 0, resource: { buffer: output } }],
  });
  const submit = () => {
    const encoder = device.createCommandEncoder();
    const pass = encoder.beginComputePass();
    pass.setPipeline(pipeline);
    pass.setBindGroup(0, group);
    pass.dispatchWorkgroups(2 ** 12);
    pass.end();
    device.queue.submit([encoder.finish()]);
  };
  return { output, submit };
}

test.skipIf(!adapter.isCpu)("a long launch does not keep the event loop busy", async () => {
  const { submit } = work(20_000);
  submit();
  const before = performance.eventLoopUtilization();
  await device.queue.onSubmittedWorkDone();
  const { active, idle, utilization } = performance.eventLoopUtilization(before);
  expect(active + idle, "the launch was too short to tell").toBeGreaterThan(20);
  expect(utilization).toBeLessThan(0.5);
});

test("a chain of short launches is not slowed to the pause between polls", async () => {
  const { output, submit } = work(1);
  const times: number[] = [];
  for (let i = 0; i < 40; i++) {
    const start = performance.now();
    submit();
    await download(output, 0, 4);
    times.push(performance.now() - start);
  }
  times.sort((a, b) => a - b);
  // Two waits of a pause each would be 2 ms more than this.
  expect(times[8]).toBeLessThan(10);
});

test("setImmediate still runs other callbacks at once, native ones included", async () => {
  const start = performance.now();
  for (let i = 0; i < 100; i++) await new Promise((resolve) => setImmediate(resolve));
  expect(performance.now() - start).toBeLessThan(90);
});
