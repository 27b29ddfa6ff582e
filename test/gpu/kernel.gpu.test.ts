import { expect, test } from "vitest";
import { KernelError } from "../../src/errors.ts";
import { Kernel, reflect, specialize } from "../../src/gpu/kernel.ts";
import { Plan } from "../../src/gpu/plan.ts";
import { Readback } from "../../src/gpu/readback.ts";
import { Recorder } from "../../src/gpu/recorder.ts";
import { allocateTensor, GRID_USAGE, GRID_WORDS } from "../../src/gpu/tensor.ts";
import { device } from "../support/devices/gpu.ts";

const source = `
const SCALE = 2u;

struct Params {
  count: u32,
  offset: f32,
}

@group(0) @binding(0) var<storage, read> x: array<f32>;
@group(0) @binding(1) var<storage, read_write> out: array<f32>;
@group(0) @binding(2) var<uniform> params: Params;

@compute @workgroup_size(8)
fn main(@builtin(global_invocation_id) id: vec3u) {
  if id.x < params.count { out[id.x] = x[id.x] * f32(SCALE) + params.offset; }
}
`;
const definition = {
  name: "scale",
  source,
  buffers: ["x", "out"],
  params: ["count", "offset"],
} as const;

test("Kernel refuses a wrapper whose names or order differ from the file's", () => {
  expect(() => new Kernel({ ...definition, buffers: ["out", "x"] })).toThrow(
    "wrapper lists buffers [out, x], file declares [x, out]",
  );
  expect(() => new Kernel({ ...definition, params: ["count"] })).toThrow(/wrapper lists params/);
});

test("specialize() rewrites the named const and nothing else", () => {
  const code = specialize("scale", source, { SCALE: 3 });
  expect(code).toBe(source.replace("SCALE = 2u", "SCALE = 3u"));
  expect(() => specialize("scale", source, { SCALES: 3 })).toThrow(KernelError);
});

test("reflect() refuses bindings out of order and params of other types", () => {
  expect(() => reflect("k", source.replace("binding(1)", "binding(5)"))).toThrow(/out of order/);
  expect(() => reflect("k", source.replace("offset: f32", "offset: vec2f"))).toThrow(
    /not u32 or f32/,
  );
});

/** Two launches of the kernel, one feeding the other, and a way to read the result. */
async function pair() {
  const recorder = new Recorder(device);
  const kernel = new Kernel(definition);
  const [x, y, z] = ["x", "y", "z"].map((label) => allocateTensor(device, 64, label));
  device.queue.writeBuffer(
    x!.buffer,
    0,
    Float32Array.from({ length: 16 }, (_, i) => i),
  );
  const first = kernel.bind(recorder, { x: x!, out: y! }, { params: { count: 16, offset: 1 } });
  const second = kernel.bind(
    recorder,
    { x: y!, out: z! },
    { constants: { SCALE: 10 }, params: { offset: 0.5 } },
  );
  await recorder.pipelines.ready();
  const readback = new Readback(device, 64);
  return { recorder, first, second, z: z!, readback };
}

test("launches of one submit run in order; params stay until they are set again", async () => {
  const { recorder, first, second, z, readback } = await pair();
  for (const count of [16, 3]) {
    second.set("count", count);
    first.record(2);
    second.record(2);
    const read = readback.record(recorder, z, 64);
    recorder.submit();
    expect([...new Float32Array(await read())]).toEqual(
      Array.from({ length: 16 }, (_, i) => (i * 2 + 1) * 10 + 0.5),
    );
  }
  expect(recorder.launches).toBe(4);
  expect(recorder.submits).toBe(2);
});

test("recordIndirect() launches as many workgroups as a buffer says when it runs", async () => {
  const { recorder, first, second, z, readback } = await pair();
  const grid = allocateTensor(device, 4 * GRID_WORDS, "grid", GRID_USAGE);
  device.queue.writeBuffer(grid.buffer, 0, Uint32Array.of(1, 1, 1, 0));
  const launches = recorder.keep(() => {
    first.record(2);
    second.set("count", 16);
    second.recordIndirect(grid, 2);
  });
  for (const width of [1, 2]) {
    device.queue.writeBuffer(grid.buffer, 0, Uint32Array.of(width));
    device.queue.writeBuffer(z.buffer, 0, new Float32Array(16).fill(-1));
    recorder.replay(launches);
    const read = readback.record(recorder, z, 64);
    recorder.submit();
    const written = [...new Float32Array(await read())].filter((value) => value !== -1);
    expect(written).toHaveLength(8 * width);
  }
  expect(launches[1]!.grid).toEqual([2, 1, 1]);
});

test("BoundKernel refuses two values of one param in one submit", async () => {
  const { first } = await pair();
  first.record(2);
  first.set("count", 16); // the same again is fine
  expect(() => first.set("count", 5)).toThrow(/changes between two records of one submit/);
});

test("a kernel that does not compile is named with the compiler's words", async () => {
  const recorder = new Recorder(device, {
    rewrite: (_, code) => code.replace("f32(SCALE)", "SCALE"),
  });
  const x = allocateTensor(device, 16, "x");
  new Kernel(definition).bind(recorder, { x, out: allocateTensor(device, 16, "out") });
  await expect(recorder.pipelines.ready()).rejects.toThrow(
    /Cannot use kernel "scale.*no matching overload/s,
  );
});

test("Plan cuts segments at exchanges and awaits them", async () => {
  const { recorder, first, second, z, readback } = await pair();
  const plan = new Plan<{ readonly count: number }>(recorder);
  const events: string[] = [];
  plan.group("one");
  plan.add(() => first.record(2));
  plan.exchange("wait", async () => {
    expect(recorder.submits % 2).toBe(1);
    await new Promise((resolve) => setTimeout(resolve, 5));
    events.push("exchanged");
  });
  plan.group("two");
  plan.tap("y", z);
  plan.add(({ count }) => {
    events.push("second");
    second.set("count", count);
    second.record(2);
  });
  let read: (() => Promise<ArrayBuffer>) | undefined;
  plan.add(() => {
    read = readback.record(recorder, z, 8);
  });
  await plan.run({ count: 2 }, { onTap: (name) => events.push(`tap ${name}`) });
  expect(events).toEqual(["exchanged", "tap y", "second"]);
  expect(recorder.submits).toBe(2);
  expect([...new Float32Array(await read!())]).toEqual([10.5, 30.5]);
  expect(Object.fromEntries(await plan.countLaunches({ count: 2 }))).toEqual({ one: 1, two: 1 });
  await read!();
});
