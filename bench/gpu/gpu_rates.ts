/**
 * What the adapter gives at most, and what launches and submits cost: what all else is held against.
 *
 * @module
 */
import { performance } from "node:perf_hooks";
import { expect } from "vitest";
import { copy as bindCopy } from "../../kernels/probe/copy.ts";
import { MULTIPLY_ADD_WORKGROUP, multiplyAdd } from "../../kernels/probe/multiply_add.ts";
import { Readback } from "../../src/gpu/readback.ts";
import { Recorder } from "../../src/gpu/recorder.ts";
import { allocateTensor, type Tensor } from "../../src/gpu/tensor.ts";
import type { AdapterRates } from "../../src/profile.ts";
import { adapter, device, download, upload } from "../../test/support/devices/gpu.ts";
import { catchLaunches } from "../support/launch_profile.ts";
import type { Encode } from "../support/timing.ts";
import { makeTensor, WORDS } from "./gpu_data.ts";
import { hostSeconds, secondsOf } from "./gpu_time.ts";

/** Several times what the caches of a GPU hold, where there is a binding for it. */
const COPIED_BYTES = Math.min(
  (adapter.isCpu ? 64 : 512) * 2 ** 20,
  device.limits.maxStorageBufferBindingSize,
);
const VECTOR_BYTES = 16;
/** Chains of four numbers in an invocation, and their sum at the start. */
const FMA_CHAINS = 4;
const FMA_START = 6;
const FMA_INCREMENT = 0.5;
/** Invocations enough for any GPU, steps enough that starting them does not count. */
const FMA_WORK = { workgroups: 4096, steps: adapter.isCpu ? 256 : 4096 };

export interface LaunchCosts {
  /** Seconds of a launch of one workgroup behind another that it waits for, by the GPU's clock. */
  readonly launch: number;
  /** The same whose grid is in the GPU's memory, as that of sorted experts. */
  readonly indirectLaunch: number;
  /** That of the first by the host's, encoding and submit included. */
  readonly hostLaunch: number;
  /** Seconds from the record of one launch until four bytes of it are on the host. */
  readonly roundTrip: number;
}

/** Copies and multiplies, with the answers checked. */
export async function measureBenchRates(): Promise<AdapterRates> {
  const copy = (2 * COPIED_BYTES) / (await copySeconds());
  const { workgroups, steps } = FMA_WORK;
  const multiplyAdds = workgroups * MULTIPLY_ADD_WORKGROUP * FMA_CHAINS * 4 * steps;
  const fma = await withMultiplyAdd(FMA_WORK, (encode) => secondsOf([encode]));
  return { copy, fma: (2 * multiplyAdds) / fma };
}

async function copySeconds(): Promise<number> {
  const recorder = new Recorder(device, { maxLaunches: 1 });
  const source = await makeTensor("copied", COPIED_BYTES / 4, { kind: WORDS.f32 });
  const to = allocateTensor(device, COPIED_BYTES, "copy");
  const record = bindCopy(recorder, { source: source.tensor, to });
  await recorder.pipelines.ready();
  const [launch] = await catchLaunches(recorder, async () => {
    record(COPIED_BYTES / VECTOR_BYTES);
    recorder.submit();
  });
  const last = COPIED_BYTES - 4096;
  for (const at of [0, Math.floor(last / 512) * 256, last]) {
    const got = new Uint32Array(await download(to.buffer, at, 4096));
    got.forEach((word, i) => {
      expect(word).toBe(source.word(at / 4 + i));
    });
  }
  const seconds = await secondsOf([launch!.encode]);
  for (const { buffer } of [source.tensor, to]) buffer.destroy();
  recorder.destroy();
  return seconds;
}

/** Launches the kernel that only computes, checks it, and hands the launch on. */
async function withMultiplyAdd<T>(
  { workgroups, steps }: { readonly workgroups: number; readonly steps: number },
  use: (encode: Encode, recorder: Recorder, out: Tensor) => Promise<T>,
): Promise<T> {
  const recorder = new Recorder(device, { maxLaunches: 1 });
  const out = allocateTensor(device, workgroups * MULTIPLY_ADD_WORKGROUP * 16, "fma");
  const record = multiplyAdd(recorder, { out, steps, factor: 1, increment: FMA_INCREMENT });
  await recorder.pipelines.ready();
  const [launch] = await catchLaunches(recorder, async () => {
    record(workgroups);
    recorder.submit();
  });
  const got = new Float32Array(await download(out.buffer));
  const want = FMA_CHAINS * steps * FMA_INCREMENT + FMA_START;
  expect(got.every((value) => value === want)).toBe(true);
  try {
    return await use(launch!.encode, recorder, out);
  } finally {
    out.buffer.destroy();
    recorder.destroy();
  }
}

/** The launches of `encode`, of as many workgroups as `grid` says. */
function indirectly(encode: Encode, grid: GPUBuffer): Encode {
  return (pass) => {
    const own: Partial<GPUComputePassEncoder> = {
      setPipeline: (pipeline) => pass.setPipeline(pipeline),
      setBindGroup: (index: number, group: GPUBindGroup | null) => pass.setBindGroup(index, group),
      dispatchWorkgroups: () => pass.dispatchWorkgroupsIndirect(grid, 0),
    };
    encode(own as GPUComputePassEncoder);
  };
}

const LAUNCHES = 1000;
const ROUND_TRIPS = 100;

/** What a step pays for, however little its launches do. */
export function measureLaunchCosts(): Promise<LaunchCosts> {
  return withMultiplyAdd({ workgroups: 1, steps: 1 }, async (encode, recorder, out) => {
    const launch = await secondsOf([encode]);
    const grid = upload(Uint32Array.of(1, 1, 1), GPUBufferUsage.INDIRECT);
    const indirectLaunch = await secondsOf([indirectly(encode, grid)]);
    grid.destroy();
    const many: Encode = (pass) => {
      for (let i = 0; i < LAUNCHES; i++) encode(pass);
    };
    await hostSeconds(many);
    const hostLaunch = (await hostSeconds(many)) / LAUNCHES;
    const readback = new Readback(device, 4);
    const trips: number[] = [];
    for (let i = 0; i < ROUND_TRIPS; i++) {
      const started = performance.now();
      encode(recorder.pass);
      const read = readback.record(recorder, out, 4);
      recorder.submit();
      await read();
      trips.push((performance.now() - started) / 1e3);
    }
    readback.destroy();
    trips.sort((a, b) => a - b);
    return { launch, indirectLaunch, hostLaunch, roundTrip: trips[ROUND_TRIPS / 2]! };
  });
}
