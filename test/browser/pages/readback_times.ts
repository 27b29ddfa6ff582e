/**
 * A page that reads small results back, one after another, on a device that is told to submit
 * nothing over and over meanwhile and on one that is not.
 *
 * @module
 */
import { openDevice } from "../../../src/browser/device.ts";
import { deviceDescriptor } from "../../../src/gpu/device.ts";
import { Readback } from "../../../src/gpu/readback.ts";
import { Recorder } from "../../../src/gpu/recorder.ts";
import { allocateTensor } from "../../../src/gpu/tensor.ts";
import { reporting } from "./report.ts";

export interface ReadbackTimes {
  /** Milliseconds, medians: of a device as `openDevice` opens it, and as the browser gives it. */
  readonly opened: number;
  readonly plain: number;
  /** Whether every result was right. */
  readonly isRight: boolean;
}

const COUNT = 15;

async function plainDevice(): Promise<GPUDevice> {
  const adapter = (await navigator.gpu.requestAdapter())!;
  return adapter.requestDevice(deviceDescriptor(adapter));
}

async function measure(device: GPUDevice) {
  const recorder = new Recorder(device);
  const tensor = allocateTensor(device, 16, "result");
  const readback = new Readback(device, 16);
  const times: number[] = [];
  let isRight = true;
  for (let i = 0; i < COUNT; i++) {
    device.queue.writeBuffer(tensor.buffer, 0, Uint32Array.of(i, i + 1, i + 2, i + 3));
    const started = performance.now();
    const read = readback.record(recorder, tensor, 16);
    recorder.submit();
    const found = new Uint32Array(await read());
    times.push(performance.now() - started);
    isRight &&= found.join() === [i, i + 1, i + 2, i + 3].join();
  }
  return { median: times.sort((a, b) => a - b)[COUNT >> 1]!, isRight };
}

await reporting(async (): Promise<ReadbackTimes> => {
  const plain = await measure(await plainDevice());
  const opened = await measure(await openDevice());
  return {
    opened: opened.median,
    plain: plain.median,
    isRight: plain.isRight && opened.isRight,
  };
});
