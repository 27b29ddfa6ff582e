import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { DEFAULT_LAYOUT } from "../../kernels/linear/weights/layout.ts";
import { addNorm } from "../../kernels/norm/add_norm.ts";
import { normedShape } from "../../kernels/norm/normed_rows.ts";
import { Checkpoint } from "../../src/checkpoint/checkpoint.ts";
import { memorySource } from "../../src/checkpoint/memory_source.ts";
import { DeviceMemory } from "../../src/gpu/memory.ts";
import { Plan } from "../../src/gpu/plan.ts";
import { Recorder } from "../../src/gpu/recorder.ts";
import { allocateTensor } from "../../src/gpu/tensor.ts";
import { EMPTY_STEP, type Step } from "../../src/layers/batch.ts";
import { Moe } from "../../src/layers/moe/moe.ts";
import { allocateMoeScratch, type MoeShape } from "../../src/layers/moe/moe_scratch.ts";
import { ONE_RANK } from "../../src/parallel/communicator.ts";
import { SHARED_MODELS } from "../support/checkpoints/folder_source.ts";
import { formatsOf } from "../support/checkpoints/formats.ts";
import { checkpointFiles } from "../support/checkpoints/write_checkpoint.ts";
import { openDefaultDevice } from "../support/devices/default_device.ts";
import { downloadFrom } from "../support/devices/device_buffers.ts";
import { device as wholeDevice } from "../support/devices/gpu.ts";

interface Recorded {
  readonly shape: readonly number[];
  readonly b64: string;
}

const floats = ({ b64 }: Recorded) =>
  new Float32Array(Uint8Array.from(Buffer.from(b64, "base64")).buffer);

describe.skipIf(SHARED_MODELS === undefined)("Moe (needs ../shared/data)", () => {
  test.each([
    { perStep: 1, folds: false, adds: false },
    { perStep: 1, folds: true, adds: true },
    { perStep: 0, folds: false, adds: false },
    // Several rows of an expert.
    { perStep: 0, folds: true, adds: true },
    // The same where a launch has too few buffers for it.
    { perStep: 0, folds: true, adds: false, isDefault: true },
  ])(
    "gives the golden block's rows: $perStep a step (0: all), adding them itself: $adds",
    async ({ perStep, folds, adds, isDefault = false }) => {
      const device = isDefault ? await openDefaultDevice() : wholeDevice;
      const path = join(SHARED_MODELS!, "../golden/kernels.json");
      const { config, weights, x, y } = JSON.parse(readFileSync(path, "utf8")).moe_block;
      const tensors = Object.entries<Recorded>(weights).map(([name, recorded]) => ({
        name: `mlp.${name}`,
        shape: recorded.shape,
        dtype: "F32" as const,
        values: floats(recorded),
      }));
      const [routed, hiddenSize] = weights["gate.weight"].shape;
      const shape: MoeShape = {
        hiddenSize,
        routed,
        shared: config.n_shared_experts,
        perToken: config.num_experts_per_tok,
        intermediate: weights["experts.0.gate_proj.weight"].shape[0],
        scoring: config.scoring_func,
        selection: config.topk_method,
        groups: config.n_group,
        groupsKept: config.topk_group,
        normalize: config.norm_topk_prob,
        scalingFactor: config.routed_scaling_factor,
      };
      const memory = new DeviceMemory(device.limits, device);
      const formats = formatsOf("F32");
      const context = {
        memory,
        layout: DEFAULT_LAYOUT,
        formats,
        communicator: ONE_RANK,
      };
      const moe = new Moe(context, shape, "mlp");
      const checkpoint = await Checkpoint.open(memorySource(checkpointFiles({ tensors })));
      checkpoint.check(moe.specs);
      await checkpoint.load(moe.specs);

      const rows = x.shape[0] as number;
      const recorder = new Recorder(device);
      const plan = new Plan<Step>(recorder);
      const scratch = allocateMoeScratch(memory, shape, {
        maxRows: rows,
        hiddenStride: hiddenSize,
      });
      const make = (label: string) => allocateTensor(device, rows * hiddenSize * 4, label);
      const [input, sum] = [make("input"), make("sum")];
      const shapeAfter = normedShape(hiddenSize, false);
      const tensor = allocateTensor(device, rows * shapeAfter.stride * 4, "normed rows");
      const normed = { ...shapeAfter, tensor };
      const residual = { hidden: sum, stride: hiddenSize, weight: input, normed };
      const binding = {
        scratch,
        normed: { x: input, xStride: hiddenSize },
        quantized: undefined,
        rounding: undefined,
        hiddenStride: hiddenSize,
        residual: folds ? residual : undefined,
      };
      const isAdded = moe.compile(plan, binding);
      // The residual stream starts at zero, so that after the combining norm it holds the block's result.
      const combine = addNorm(recorder, {
        x: sum,
        addend: {
          kind: "combine",
          y: scratch.output,
          weights: scratch.weights,
          slots: moe.slots,
        },
        weight: input,
        normed,
        cols: hiddenSize,
        eps: 1e-6,
      });
      plan.add((step) => {
        expect(isAdded(step)).toBe(adds);
        if (!adds) combine(step.rows);
      });
      await recorder.pipelines.ready();

      const given = floats(x);
      const want = floats(y);
      const largest = Math.max(...want.map(Math.abs));
      const step = perStep === 0 ? rows : perStep;
      for (let first = 0; first < rows; first += step) {
        const part = given.slice(first * hiddenSize, (first + step) * hiddenSize);
        device.queue.writeBuffer(input.buffer, 0, part);
        device.queue.writeBuffer(sum.buffer, 0, new Float32Array(rows * hiddenSize));
        await plan.run({ ...EMPTY_STEP, rows: step, decodeRows: step });
        const got = new Float32Array(await downloadFrom(device, sum.buffer));
        for (let i = 0; i < part.length; i++) {
          expect(Math.abs(got[i]! - want[first * hiddenSize + i]!) / largest).toBeLessThan(1e-5);
        }
      }
      memory.destroy();
    },
  );
});
