/**
 * The device that GPU tests share, and short ways to get data onto it and back.
 *
 * `WISP_ADAPTER` chooses the driver, `WISP_SUBGROUP_MATRICES=1` asks for the subgroup matrices of an
 * adapter that has them; `setup.ts` fails every test that leaves a WebGPU error behind. Pipelines
 * live as long as the device does: Dawn finds one of the same code while any is alive, so that what
 * one test compiled no other test compiles again.
 *
 * @module
 */

import { type AdapterDescription, openDevice } from "../../../src/node/device/device.ts";
import { downloadFrom, uploadTo } from "./device_buffers.ts";
import { gpuErrors } from "./gpu_errors.ts";

export { seeded } from "../seeded.ts";

const opened = await openDevice({
  subgroupMatrices: process.env.WISP_SUBGROUP_MATRICES === "1",
});

export const device: GPUDevice = opened.device;
export const adapter: AdapterDescription = opened.adapter;

const compiled = new Set<GPUComputePipeline>();
const compile = device.createComputePipelineAsync.bind(device);
device.createComputePipelineAsync = async (descriptor) => {
  const pipeline = await compile(descriptor);
  compiled.add(pipeline);
  return pipeline;
};

gpuErrors.flush = () => device.queue.onSubmittedWorkDone();
device.addEventListener("uncapturederror", (event) => {
  gpuErrors.messages.push(event.error.message);
});
device.lost.then(({ reason, message }) => {
  if (reason !== "destroyed") gpuErrors.messages.push(`device lost: ${message}`);
});

/** True in the fast run on a slow adapter: a suite then runs its smallest case only. */
export const smallestCaseOnly = process.env.WISP_TEST_SMALLEST === "1";

/** True in `npm test` on lavapipe: a kernel's check then runs each case in one tuning. */
export const firstTuningOnly = process.env.WISP_TEST_FIRST_TUNING === "1";

/** True in `npm run test:drivers` on lavapipe: a check then runs the cases that all tunings are tried with. */
export const tunedCasesOnly = process.env.WISP_TEST_TUNED_CASES === "1";

/** True where subgroups are wider than by default: a kernel's check then runs the tunings that use them. */
export const subgroupTuningsOnly = process.env.WISP_TEST_SUBGROUPS === "1";

/** True in `npm run test:full`: every case, every tuning. */
export const fullTest = process.env.WISP_TEST_FULL === "1";

/** A storage buffer with these contents, padded with zeros to a multiple of 4 bytes. */
export function upload(data: ArrayBufferView, usage: GPUBufferUsageFlags = 0): GPUBuffer {
  return uploadTo(device, data, usage);
}

/**
 * The contents of a buffer, which needs `COPY_SRC`.
 *
 * @param length Bytes, a multiple of 4; the rest of the buffer when absent.
 * @param of The device it is on, when that is not the shared one.
 */
export function download(
  buffer: GPUBuffer,
  offset = 0,
  length = buffer.size - offset,
  of = device,
): Promise<ArrayBuffer> {
  return downloadFrom(of, buffer, { offset, length });
}
