import { performance } from "node:perf_hooks";
import { expect, test } from "vitest";
import { adapter, device, upload } from "../../support/devices/gpu.ts";

/** Keeps the adapter busy with `rounds` multiply-adds for each of 2^18 values. */
function submitWork(rounds: number): void {
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
  const encoder = device.createCommandEncoder();
  const pass = encoder.beginComputePass();
  pass.setPipeline(pipeline);
  pass.setBindGroup(0, group);
  pass.dispatchWorkgroups(2 ** 12);
  pass.end();
  device.queue.submit([encoder.finish()]);
}

test.skipIf(!adapter.isCpu)("a long launch does not keep the event loop busy", async () => {
  submitWork(20_000);
  const before = performance.eventLoopUtilization();
  await device.queue.onSubmittedWorkDone();
  const { active, idle, utilization } = performance.eventLoopUtilization(before);
  expect(active + idle, "the launch was too short to tell").toBeGreaterThan(20);
  expect(utilization).toBeLessThan(0.5);
});
