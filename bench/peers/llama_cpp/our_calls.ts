/**
 * Our kernels in the form that ONNX Runtime is measured in: calls that upload their input, launch,
 * wait, and read their output back. Values are checked first.
 *
 * @module
 */
import { performance } from "node:perf_hooks";
import type { KernelCheck } from "../../../kernels/check.ts";
import {
  randomRows,
  randomWeight,
  unpackWeight,
} from "../../../kernels/linear/checks/check_weights.ts";
import { linear } from "../../../kernels/linear/linear.ts";
import {
  type GroupColumns,
  layoutFor,
  type WeightDtype,
} from "../../../kernels/linear/weights/layout.ts";
import { paddedRows } from "../../../kernels/linear/weights/weight_order.ts";
import { Recorder } from "../../../src/gpu/recorder.ts";
import { allocateTensor, type Tensor, whole } from "../../../src/gpu/tensor.ts";
import { device, seeded, upload } from "../../../test/support/devices/gpu.ts";
import { compareTensors, uploadArrays } from "../../../test/support/devices/kernel_outcome.ts";
import { type MatrixShape, matrixProducts } from "../onnx/onnx_graphs.ts";
import { type CallTime, type Contestant, requireClose } from "../onnx/onnx_runtime_process.ts";

interface CallOptions {
  readonly name: string;
  readonly recorder: Recorder;
  /** Records one launch, or the few that always go together. */
  readonly record: () => void;
  /** Times that it is recorded in a call. */
  readonly launches: number;
  readonly tensors: Readonly<Record<string, Tensor>>;
  /** What a call uploads... */
  readonly input: { readonly tensor: Tensor; readonly data: ArrayBufferView };
  /** ...and what it reads back. */
  readonly output: Tensor;
}

class OurCall implements Contestant {
  readonly #options: CallOptions;
  readonly #staging: GPUBuffer;

  constructor(options: CallOptions) {
    this.#options = options;
    this.#staging = device.createBuffer({
      size: options.output.size,
      usage: GPUBufferUsage.MAP_READ | GPUBufferUsage.COPY_DST,
    });
  }

  get name(): string {
    return this.#options.name;
  }

  get launches(): number {
    return this.#options.launches;
  }

  /** One call. */
  async output(): Promise<Float32Array> {
    const { recorder, record, launches, input, output } = this.#options;
    const { buffer, byteOffset, byteLength } = input.data;
    device.queue.writeBuffer(input.tensor.buffer, 0, buffer, byteOffset, byteLength);
    for (let i = 0; i < launches; i++) record();
    recorder.copy(output, whole(this.#staging), output.size);
    recorder.submit();
    await this.#staging.mapAsync(GPUMapMode.READ);
    const values = new Float32Array(this.#staging.getMappedRange().slice(0));
    this.#staging.unmap();
    return values;
  }

  async run(times: number): Promise<CallTime> {
    let [seconds, cpuSeconds] = [Number.POSITIVE_INFINITY, Number.POSITIVE_INFINITY];
    for (let i = 0; i < times; i++) {
      const before = process.cpuUsage();
      const started = performance.now();
      await this.output();
      seconds = Math.min(seconds, (performance.now() - started) / 1e3);
      const { user, system } = process.cpuUsage(before);
      cpuSeconds = Math.min(cpuSeconds, (user + system) / 1e6);
    }
    return { seconds, cpuSeconds };
  }

  async close(): Promise<void> {
    const { recorder, tensors } = this.#options;
    for (const { buffer } of Object.values(tensors)) buffer.destroy();
    this.#staging.destroy();
    recorder.destroy();
  }
}

export interface WeightForm {
  readonly dtype: WeightDtype;
  /** int4 only. */
  readonly groupColumns?: GroupColumns;
}

/** `linear` with random weights. */
export async function ourLinear(
  { rows, columns, outputs }: MatrixShape,
  { form, launches }: { readonly form: WeightForm; readonly launches: number },
): Promise<Contestant> {
  const random = seeded(1);
  const shape = { ...layoutFor(device), ...form, rows: outputs, columns };
  const packed = randomWeight(shape, random);
  const data = randomRows({ rows, columns, stride: columns }, random);
  const tensors = {
    x: whole(upload(data)),
    words: whole(upload(packed.words)),
    scales: whole(upload(packed.scales)),
    out: allocateTensor(device, 4 * rows * outputs, "out"),
  };
  const recorder = new Recorder(device, { maxLaunches: 8 });
  const launch = linear(recorder, {
    x: tensors.x,
    xStride: columns,
    weight: {
      ...shape,
      rowsPadded: paddedRows(outputs, shape),
      words: tensors.words,
      scales: tensors.scales,
    },
    out: tensors.out,
    outStride: outputs,
  });
  await recorder.pipelines.ready();
  const call = new OurCall({
    name: `linear ${form.dtype}${form.groupColumns ? `, groups of ${form.groupColumns}` : ""}`,
    recorder,
    record: () => launch(rows),
    launches,
    tensors,
    input: { tensor: tensors.x, data },
    output: tensors.out,
  });
  const want = matrixProducts(data, unpackWeight(shape, packed), { rows, columns, outputs });
  requireClose(call.name, await call.output(), { want, tolerance: 1e-4 });
  return call;
}

/** The kernel of a check whose output is called `out`, as an adapter with subgroups runs it. */
export async function ourCheckedKernel<C>(
  check: KernelCheck<C>,
  shape: C,
  { name, query }: { readonly name: string; readonly query: string },
): Promise<Contestant> {
  const inputs = check.inputs(shape, seeded(1));
  const want = check.reference(shape, inputs);
  const tensors = uploadArrays(device, { inputs, want });
  const recorder = new Recorder(device, { maxLaunches: 8 });
  const record = check.bind(recorder, shape, tensors, { subgroups: 1 });
  await recorder.pipelines.ready();
  const call = new OurCall({
    name,
    recorder,
    record,
    launches: 1,
    tensors,
    input: { tensor: tensors[query]!, data: inputs[query]! },
    output: tensors.out!,
  });
  await call.output();
  const { error, where } = await compareTensors(device, { want, tensors });
  if (error > check.tolerance) throw new Error(`${name}: ${where}`);
  return call;
}
