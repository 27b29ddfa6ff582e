/**
 * How long it takes until weights lie in the order of their layout: put there by the host, and by the
 * GPU.
 *
 * @module
 */
import { Readback } from "../src/gpu/readback.ts";
import { Recorder } from "../src/gpu/recorder.ts";
import { allocateTensor } from "../src/gpu/tensor.ts";
import { repackWeight } from "./linear/upload/repack_weight.ts";
import { RowPacker } from "./linear/upload/row_packer.ts";
import { orderOf, runRows, type WeightOrder } from "./linear/weights/weight_order.ts";

/** 4 MiB of BF16, as staging takes them at once. */
const [ROWS, COLUMNS] = [512, 4096];
const BYTES = ROWS * COLUMNS * 2;
const ROUNDS = 6;
/** Chunks of a round: a wait ends a little after the work. */
const CHUNKS = 4;

export interface UploadTimes {
  /** Bytes that both took. */
  readonly bytes: number;
  /** Seconds of the host's way. */
  readonly host: number;
  /** Seconds of the GPU's way; infinite where it left other words. */
  readonly gpu: number;
}

/** The least of several rounds, in which the two take turns. */
export async function timeUpload(device: GPUDevice, order: WeightOrder): Promise<UploadTimes> {
  const recorder = new Recorder(device, { maxLaunches: CHUNKS });
  const allocate = (label: string) => allocateTensor(device, BYTES, label);
  const [staging, onHost, onGpu] = [allocate("staged"), allocate("host"), allocate("GPU")];
  const readback = new Readback(device, BYTES, 1);
  try {
    const rows = new Uint8Array(BYTES).map((_, i) => i * 31 + (i >> 9));
    const packer = new RowPacker({ ...orderOf(order), dtype: "bf16", columns: COLUMNS });
    const launch = repackWeight(recorder, { packing: "rows", staging, words: onGpu });
    await recorder.pipelines.ready();
    const { queue } = device;
    const byHost = () => queue.writeBuffer(onHost.buffer, 0, packer.push(rows, ROWS)!.words);
    const run = runRows(order);
    const granulesPerRow = (COLUMNS * 2) / 16;
    const byGpu = () => {
      queue.writeBuffer(staging.buffer, 0, rows);
      launch({ rowWords: COLUMNS / 2, rows: ROWS, runRows: run, granulesPerRow, firstRow: 0 });
      recorder.submit();
    };
    const seconds = async (send: () => void) => {
      const started = performance.now();
      for (let i = 0; i < CHUNKS; i++) send();
      await queue.onSubmittedWorkDone();
      return (performance.now() - started) / 1000;
    };
    let host = Number.POSITIVE_INFINITY;
    let gpu = Number.POSITIVE_INFINITY;
    for (let round = 0; round < ROUNDS; round++) {
      host = Math.min(host, await seconds(byHost));
      gpu = Math.min(gpu, await seconds(byGpu));
    }
    const words: Uint32Array[] = [];
    for (const tensor of [onHost, onGpu]) {
      const read = readback.record(recorder, tensor, BYTES);
      recorder.submit();
      words.push(new Uint32Array(await read()).slice());
    }
    const alike = words[0]!.every((word, i) => word === words[1]![i]);
    return { bytes: CHUNKS * BYTES, host, gpu: alike ? gpu : Number.POSITIVE_INFINITY };
  } finally {
    readback.destroy();
    recorder.destroy();
    for (const { buffer } of [staging, onHost, onGpu]) buffer.destroy();
  }
}
