/**
 * What the adapter gives at most: the rate of a kernel that only copies, of one that only
 * computes, and the cost of a launch that does next to nothing.
 *
 * @module
 */
import { expect } from "vitest";
import { copy as bindCopy } from "../../kernels/probe/copy.ts";
import { MULTIPLY_ADD_WORKGROUP, multiplyAdd } from "../../kernels/probe/multiply_add.ts";
import { Recorder } from "../../src/gpu/recorder.ts";
import { allocateTensor, whole } from "../../src/gpu/tensor.ts";
import { device, download, upload } from "../../test/support/devices/gpu.ts";
import { catchLaunches } from "../support/launch_profile.ts";
import { timeLaunch } from "../support/timing.ts";

export interface AdapterRates {
  /** Bytes read plus bytes written, a second. */
  readonly copy: number;
  /** Operations a second, a fused multiply-add being two. */
  readonly fma: number;
  /** Seconds of a launch of one workgroup among others. */
  readonly launch: number;
}

const COPIED_BYTES = 64 * 2 ** 20;
const VECTOR_BYTES = 16;
/** Chains of four numbers in an invocation, and their sum at the start. */
const FMA_CHAINS = 4;
const FMA_START = 6;

/** Copies 64 MiB and computes 4096 x 64 invocations, checks both, and times them. */
export async function measureAdapter(): Promise<AdapterRates> {
  const recorder = new Recorder(device, { maxLaunches: 8 });
  const copy = await timeCopy(recorder);
  const many = { workgroups: 4096, steps: 1024 };
  const fma = await timeFma(recorder, many);
  const launch = await timeFma(recorder, { workgroups: 1, steps: 1 });
  recorder.destroy();
  const multiplyAdds = many.workgroups * MULTIPLY_ADD_WORKGROUP * FMA_CHAINS * 4 * many.steps;
  return { copy: (2 * COPIED_BYTES) / copy, fma: (2 * multiplyAdds) / fma, launch };
}

async function timeCopy(recorder: Recorder): Promise<number> {
  const words = Uint32Array.from({ length: COPIED_BYTES / 4 }, (_, i) => Math.imul(i, 2654435761));
  const source = whole(upload(words));
  const to = allocateTensor(device, COPIED_BYTES, "copy");
  const record = bindCopy(recorder, { source, to });
  await recorder.pipelines.ready();
  const [launch] = await catchLaunches(recorder, async () => {
    record(COPIED_BYTES / VECTOR_BYTES);
    recorder.submit();
  });
  expect(Buffer.compare(Buffer.from(await download(to.buffer)), Buffer.from(words.buffer))).toBe(0);
  const seconds = await timeLaunch(launch!.encode);
  source.buffer.destroy();
  to.buffer.destroy();
  return seconds;
}

async function timeFma(
  recorder: Recorder,
  { workgroups, steps }: { readonly workgroups: number; readonly steps: number },
): Promise<number> {
  const floats = workgroups * MULTIPLY_ADD_WORKGROUP * 4;
  const out = allocateTensor(device, floats * 4, "fma");
  const increment = 0.5;
  const record = multiplyAdd(recorder, { out, steps, factor: 1, increment });
  await recorder.pipelines.ready();
  const [launch] = await catchLaunches(recorder, async () => {
    record(workgroups);
    recorder.submit();
  });
  const got = new Float32Array(await download(out.buffer));
  const want = FMA_CHAINS * steps * increment + FMA_START;
  expect(got.every((value) => value === want)).toBe(true);
  const seconds = await timeLaunch(launch!.encode);
  out.buffer.destroy();
  return seconds;
}
