/**
 * How fast weights get to their places: words put in the order of the layout by the host, and by the
 * GPU, which always does it with AWQ and GPTQ.
 *
 * Both ways take the chunks that the loader gives them, in turns; the clock stops when the queue is
 * done, and the least of the turns counts. What the two leave is compared.
 *
 * @module
 */
import { performance } from "node:perf_hooks";
import { afterAll, expect, test } from "vitest";
import { layoutFor, WEIGHT_BYTES, type WeightDtype } from "../kernels/linear/weights/layout.ts";
import { orderOf } from "../kernels/linear/weights/weight_order.ts";
import type { Destination } from "../src/checkpoint/weight_spec.ts";
import { DeviceMemory } from "../src/gpu/memory.ts";
import { packRows } from "../src/layers/weights/host_rows.ts";
import { allocateMatrix } from "../src/layers/weights/matrix_place.ts";
import { RepackingUpload } from "../src/layers/weights/repacking_upload.ts";
import { StagedUpload } from "../src/layers/weights/staged_upload.ts";
import { device, download } from "../test/support/devices/gpu.ts";
import { machine } from "./support/machine.ts";
import { table } from "./support/table.ts";

const [ROWS, COLUMNS, TURNS] = [4096, 4096, 6];
/** Of a piece of a checkpoint, as the loader reads them. */
const CHUNK_BYTES = 4 * 1024 * 1024;

const memory = new DeviceMemory(device.limits, device);
const staged = new StagedUpload(device);
const repacking = new RepackingUpload(staged, true);
const lines: string[][] = [];

afterAll(() => {
  staged.destroy();
  memory.destroy();
  const header = ["weights", "host GB/s", "cpu", "GPU GB/s", "cpu", "GPU / host", "cpu"];
  console.log(`${machine()}\n${table(header, lines)}`);
});

test.each(["bf16", "fp8"] as const)("%s", async (dtype) => {
  const shape = shapeOf(dtype);
  const onHost = allocateMatrix(memory, "host", shape).place;
  const onGpu = allocateMatrix(memory, "GPU", shape).place;
  const ways = [() => packRows(onHost, 0, {}), () => repacking.rows(onGpu, 0, {})];
  const [host, gpu] = await times(ways, bytesOf(dtype), ROWS);
  const [want, got] = [
    await download(onHost.at.words.buffer),
    await download(onGpu.at.words.buffer),
  ];
  expect(Buffer.compare(Buffer.from(want), Buffer.from(got))).toBe(0);
  const ratios = [(host!.wall / gpu!.wall).toFixed(2), (host!.cpu / gpu!.cpu).toFixed(2)];
  lines.push([dtype, ...rates(dtype, host!), ...rates(dtype, gpu!), ...ratios]);
});

test.each(["awq", "gptq"] as const)("%s", async (packing) => {
  const { place } = allocateMatrix(memory, packing, shapeOf("int4"));
  const slice = { name: packing, packing, sourceRows: ROWS, sourceColumns: COLUMNS };
  const fileRows = packing === "awq" ? COLUMNS : COLUMNS / 8;
  const bytes = bytesOf("int4");
  const [gpu] = await times([() => repacking.columns(place, 0, slice)], bytes, fileRows);
  const words = new Uint32Array(await download(place.at.words.buffer));
  const file = new Uint32Array(bytes.buffer);
  // The first output's first word, and the last output's last one.
  if (packing === "gptq") expect([words[0], words.at(-1)]).toEqual([file[0], file.at(-1)]);
  else expect([words[0]! & 15, words.at(-1)! >>> 28]).toEqual([file[0]! & 15, file.at(-1)! >>> 28]);
  lines.push([packing, "", "", ...rates("int4", gpu!), "", ""]);
});

interface Time {
  readonly wall: number;
  readonly cpu: number;
}

const bytesOf = (dtype: WeightDtype) =>
  new Uint8Array(ROWS * COLUMNS * WEIGHT_BYTES[dtype]).map((_, i) => i * 31 + (i >> 9));

const rates = (dtype: WeightDtype, { wall, cpu }: Time) =>
  [wall, cpu].map((ms) => ((ROWS * COLUMNS * WEIGHT_BYTES[dtype]) / ms / 1e6).toFixed(2));

function shapeOf(dtype: WeightDtype) {
  const format = { dtype, encoding: { kind: "plain", dtype: "U8" } } as const;
  return { format, columns: COLUMNS, parts: [ROWS], layout: orderOf(layoutFor(device)) };
}

/** Milliseconds of each way, the least of the turns. */
async function times(
  ways: readonly (() => Destination)[],
  bytes: Uint8Array<ArrayBuffer>,
  fileRows: number,
): Promise<Time[]> {
  const least = ways.map(() => ({
    wall: Number.POSITIVE_INFINITY,
    cpu: Number.POSITIVE_INFINITY,
  }));
  for (let turn = 0; turn < TURNS; turn++) {
    for (const [w, way] of ways.entries()) {
      await device.queue.onSubmittedWorkDone();
      const [started, before] = [performance.now(), process.cpuUsage()];
      await send(way(), bytes, fileRows);
      await device.queue.onSubmittedWorkDone();
      const { user, system } = process.cpuUsage(before);
      const { wall, cpu } = least[w]!;
      least[w] = {
        wall: Math.min(wall, performance.now() - started),
        cpu: Math.min(cpu, (user + system) / 1e3),
      };
    }
  }
  return least;
}

async function send(
  destination: Destination,
  bytes: Uint8Array<ArrayBuffer>,
  rows: number,
): Promise<void> {
  const rowBytes = bytes.length / rows;
  const most = Math.floor(CHUNK_BYTES / rowBytes);
  for (let rowStart = 0; rowStart < rows; rowStart += most) {
    const count = Math.min(most, rows - rowStart);
    const piece = bytes.subarray(rowStart * rowBytes, (rowStart + count) * rowBytes);
    await destination.write({ dtype: "U8", rowStart, rows: count, bytes: piece });
  }
  await destination.finish?.();
}
