/**
 * Compiles what a model would run with, without its weights, so that the driver's cache has it.
 *
 * @module
 */

import type { LinearLayout } from "../../../kernels/linear/linear_layout.ts";
import {
  type QuantizableDtype,
  quantizeWeight,
} from "../../../kernels/linear/upload/quantize_weight.ts";
import { repackWeight, type StagedPacking } from "../../../kernels/linear/upload/repack_weight.ts";
import { sumErrors } from "../../../kernels/linear/upload/sum_errors.ts";
import { BLOCK_COLUMNS } from "../../../kernels/linear/weights/layout.ts";
import { orderOf, runRows } from "../../../kernels/linear/weights/weight_order.ts";
import type { SelfTestReport } from "../../../kernels/self_test.ts";
import { KvCache, type KvCacheShape } from "../../cache/kv_cache.ts";
import type { Checkpoint } from "../../checkpoint/checkpoint.ts";
import { DeviceMemory } from "../../gpu/memory.ts";
import type { CompiledPipeline } from "../../gpu/pipeline_cache.ts";
import { Plan } from "../../gpu/plan.ts";
import { Recorder } from "../../gpu/recorder.ts";
import type { Step } from "../../layers/batch.ts";
import { allocateMicroBatches } from "../../layers/micro_batches.ts";
import { allocateStepTensors } from "../../layers/step_tensors.ts";
import { stepTensorSizes } from "../step/batch_limits.ts";
import { compileStep } from "../step/compile_step.ts";
import type { LoadOptions } from "./load_options.ts";
import { type PreparedLoad, prepareLoad } from "./prepare_load.ts";
import { testAdapter } from "./test_adapter.ts";

export interface CompiledKernels {
  readonly pipelines: readonly CompiledPipeline[];
  /** What the start-up self-test found on this adapter. */
  readonly selfTest: SelfTestReport;
}

/**
 * Compiles every pipeline that loading the checkpoint with these options would, and launches each
 * once. Reads no weight; the device holds no weight, no cache and no activations.
 *
 * @throws {CheckpointError | UnsupportedError} naming what is wrong with the checkpoint.
 * @throws {InvalidRequestError} naming an option that is out of range.
 * @throws {DeviceError} with figures when the model would not fit.
 */
export async function compileKernels(
  checkpoint: Checkpoint,
  given: LoadOptions,
): Promise<CompiledKernels> {
  const prepared = await prepareLoad(checkpoint, given);
  const { device, limits, sizes, cacheShape, draft: preparedDraft } = prepared;
  given.onPlan?.(prepared.startSizes);
  const recorder = new Recorder(device);
  const compiling = new Recorder(device, { pipelines: recorder.pipelines, compilesOnly: true });
  const cacheOf = (shape: KvCacheShape) => new KvCache(device, shape, sizes.pageSize);
  const cache = cacheOf(cacheShape);
  const draftCache = preparedDraft && cacheOf(preparedDraft.cacheShape);
  const memory = new DeviceMemory(limits);
  try {
    const { report, layout } = await testAdapter(prepared, { ...given, recorder });
    const model = prepared.create({ memory, layout });
    const draft = preparedDraft && {
      network: preparedDraft.create({ memory, layout }),
      cache: draftCache!,
    };
    const inputSizes = stepTensorSizes(sizes, cache);
    const inputs = allocateStepTensors(memory, inputSizes);
    const microBatches = sizes.twoBatchOverlap
      ? allocateMicroBatches(memory, inputs, inputSizes)
      : undefined;
    const plan = new Plan<Step>(compiling);
    const step = { ...sizes, memory, model, cache, draft, inputs, microBatches };
    const { sampler } = compileStep(plan, step);
    sampler.destroy();
    model.vision?.compile(new Plan(compiling));
    compileUploads(prepared, { recorder: compiling, memory, layout });
    const pipelines = await recorder.pipelines.launchAll((done, total) =>
      given.onProgress?.({ phase: "pipelines", done, total }),
    );
    return { pipelines, selfTest: report };
  } finally {
    for (const one of [cache, draftCache, recorder, compiling]) one?.destroy();
  }
}

/** What weights go through on their way to the GPU, which a model is without once it is loaded. */
function compileUploads(
  { uploadTo, measured }: PreparedLoad,
  options: {
    readonly recorder: Recorder;
    readonly memory: DeviceMemory;
    readonly layout: LinearLayout;
  },
): void {
  const { recorder, memory, layout } = options;
  const unused = memory.allocate("weights", 0, "unused");
  const formats = [...measured.weightFormats.values()];
  const packings = new Set<StagedPacking>(layout.tuning?.repacks ? ["rows"] : []);
  for (const { encoding } of formats) {
    if (encoding.kind === "awq" || encoding.kind === "gptq") packings.add(encoding.kind);
  }
  for (const packing of packings) {
    repackWeight(recorder, { packing, staging: unused, words: unused });
  }
  const encoding = uploadTo && measured.weightFormats.get(uploadTo.dtype)?.encoding;
  if (encoding?.kind !== "plain") return;
  quantizeWeight(recorder, {
    shape: {
      ...uploadTo!,
      ...orderOf(layout),
      columns: BLOCK_COLUMNS,
      rowsPadded: runRows(layout),
    },
    sourceDtype: encoding.dtype as QuantizableDtype,
    staging: unused,
    words: unused,
    scales: unused,
    partials: unused,
  });
  sumErrors(recorder, { partials: unused, errors: unused });
}
