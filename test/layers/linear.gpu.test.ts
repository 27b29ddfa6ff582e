import { describe, expect, test } from "vitest";
import { DEFAULT_LAYOUT } from "../../kernels/linear/weights/layout.ts";
import { E4M3_BLOCKS } from "../../kernels/norm/quantize.ts";
import { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import { memorySource } from "../../src/checkpoint/memory_source.ts";
import { DeviceMemory } from "../../src/gpu/memory.ts";
import { Plan } from "../../src/gpu/plan.ts";
import { Recorder } from "../../src/gpu/recorder.ts";
import { allocateTensor } from "../../src/gpu/tensor.ts";
import { EMPTY_STEP, type Step } from "../../src/layers/batch.ts";
import { Mlp } from "../../src/layers/mlp.ts";
import { ONE_RANK } from "../../src/parallel/communicator.ts";
import { formatsOf } from "../support/checkpoints/formats.ts";
import {
  checkpointFiles,
  fp8BlockTensors,
  type TensorInput,
} from "../support/checkpoints/write_checkpoint.ts";
import { device, download, seeded } from "../support/devices/gpu.ts";

const HIDDEN = 200;
const INTERMEDIATE = 400;
const ROWS = 5;
const STEP: Step = { ...EMPTY_STEP, rows: ROWS, decodeRows: ROWS };

function matrix(name: string, rows: number, columns: number, fp8: boolean): TensorInput[] {
  const random = seeded(rows);
  const values = Float32Array.from({ length: rows * columns }, () => random() - 0.5);
  if (fp8)
    return fp8BlockTensors({ name: `${name}.weight`, rows, columns, values, scaleDtype: "F32" });
  return [{ name: `${name}.weight`, shape: [rows, columns], dtype: "BF16", values }];
}

/** Output bits of an MLP, and the launches it took, with bindings of at most `limit` bytes. */
async function run(fp8: boolean, limit: number) {
  const tensors = [
    ...matrix("mlp.gate_proj", INTERMEDIATE, HIDDEN, fp8),
    ...matrix("mlp.up_proj", INTERMEDIATE, HIDDEN, fp8),
    ...matrix("mlp.down_proj", HIDDEN, INTERMEDIATE, fp8),
  ];
  const checkpoint = await Checkpoint.open(memorySource(checkpointFiles({ tensors })));
  const memory = new DeviceMemory(
    { maxBufferSize: limit, maxStorageBufferBindingSize: limit },
    device,
  );
  const formats = formatsOf(fp8 ? "F8_E4M3" : "BF16");
  const mlp = new Mlp(
    { memory, layout: DEFAULT_LAYOUT, formats, communicator: ONE_RANK },
    { name: "mlp", hiddenSize: HIDDEN, intermediate: INTERMEDIATE },
  );
  await checkpoint.load(mlp.specs);
  const recorder = new Recorder(device);
  const rows = (width: number) => allocateTensor(device, ROWS * width * 4, "rows");
  const [input, intermediate, output] = [rows(HIDDEN), rows(INTERMEDIATE), rows(HIDDEN)];
  const random = seeded(3);
  const x = Float32Array.from({ length: ROWS * HIDDEN }, () => random() - 0.5);
  device.queue.writeBuffer(input.buffer, 0, x);
  device.queue.writeBuffer(output.buffer, 0, new Float32Array(ROWS * HIDDEN).fill(Number.NaN));
  const plan = new Plan<Step>(recorder);
  const normed = { x: input, xStride: HIDDEN };
  mlp.compile(plan, {
    normed,
    quantized: fp8 ? normed : undefined,
    rounding: fp8 ? E4M3_BLOCKS : undefined,
    hiddenStride: HIDDEN,
    intermediate,
    intermediateStride: INTERMEDIATE,
    output,
  });
  await recorder.pipelines.ready();
  await plan.run(STEP);
  const bits = new Uint32Array(await download(output.buffer));
  memory.destroy();
  return { bits, launches: recorder.launches };
}

describe("Mlp", () => {
  test.each([
    ["BF16", false, 150_000],
    ["FP8", true, 80_000],
  ])("%s weights in slabs of a small binding give the same bits", async (_, fp8, limit) => {
    const whole = await run(fp8, 2 ** 27);
    expect(whole.launches).toBe(2);
    const cut = await run(fp8, limit);
    expect(cut.launches).toBeGreaterThan(4);
    expect(cut.bits).toEqual(whole.bits);
    expect(new Float32Array(cut.bits.buffer).every(Number.isFinite)).toBe(true);
  });
});
