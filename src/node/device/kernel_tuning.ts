/**
 * Which tuning a model's kernels run with on this machine: one that was measured here, or measured
 * now.
 *
 * @module
 */
import { type TuneResult, tuneKernels } from "../../../kernels/tune.ts";
import { type TuneAttentionOptions, tuneAttention } from "../../../kernels/tune_attention.ts";
import { Checkpoint } from "../../checkpoint/checkpoint.ts";
import type { WeightSource } from "../../checkpoint/source.ts";
import { tuningDemand } from "../../engine/load/tuning_demand.ts";
import type { Tuning } from "../../gpu/tuning.ts";
import { OptionError } from "../options/option_parser.ts";
import type { StartReport } from "../serve/start_report.ts";
import { storedTuning, storeTuning, tuningPath } from "./tuning_file.ts";

/** What measures: seconds to minutes. */
export interface Tuners {
  readonly tuneKernels: typeof tuneKernels;
  readonly tuneAttention: typeof tuneAttention;
}

export interface KernelTuningOptions {
  readonly device: GPUDevice;
  readonly source: WeightSource;
  /** The option `quantization`. */
  readonly quantization?: string | undefined;
  /** The engine's `tunedKernels`. */
  readonly tunedKernels: boolean | undefined;
  /** Whether to measure where nothing is stored yet. */
  readonly measure: boolean;
  readonly report: Pick<StartReport, "tuning" | "progress">;
  /** Where tunings are stored. Default `tuningPath()`. */
  readonly path?: string;
  /** Default: those of the kernels. */
  readonly tuners?: Tuners;
}

/**
 * Undefined where nothing is stored for the adapter, and nothing is to be measured.
 *
 * @throws {OptionError} when kernels are to be tuned and are not to be tuned.
 * @throws {TuningFileError} when the stored tunings cannot be used.
 */
export async function kernelTuning(options: KernelTuningOptions): Promise<Tuning | undefined> {
  const { device, source, tunedKernels = true, measure, report, path = tuningPath() } = options;
  if (!tunedKernels) {
    if (!measure) return undefined;
    throw new OptionError(
      "Cannot use option --enable-torch-compile together with SVC_ENABLE_JIT_DEEPGEMM=0: the variable switches tuned kernels off",
    );
  }
  const stored = await storedTuning(device.adapterInfo, path);
  if (stored !== undefined) {
    report.tuning(`Kernels: as measured on ${stored.measured.slice(0, 10)}, in ${path}`);
    return stored.tuning;
  }
  if (!measure) return undefined;
  const { tuning } = await measureAndStore(device, {
    ...(options.tuners && { tuners: options.tuners }),
    demand: await tuningDemand(await Checkpoint.open(source), options.quantization),
    attention: {},
    onProgress: (done, total) => report.progress({ phase: "tuning", done, total }),
    path,
  });
  report.tuning(`Kernels: measured now, kept in ${path}`);
  return tuning;
}

export interface MeasureOptions {
  /** Default: that of `tuneKernels`. */
  readonly demand?: Partial<Parameters<typeof tuneKernels>[1]>;
  /** What attention is measured with; it stays as the adapter's row says where this is absent. */
  readonly attention?: TuneAttentionOptions;
  readonly onProgress: (done: number, total: number) => void;
  readonly path: string;
  readonly tuners?: Tuners;
}

/** Finds the tuning of this adapter and stores it in place of an earlier one. */
export async function measureAndStore(
  device: GPUDevice,
  { demand, attention, onProgress, path, tuners = { tuneKernels, tuneAttention } }: MeasureOptions,
): Promise<TuneResult> {
  // A file that cannot be written to is better known before than after.
  await storedTuning(device.adapterInfo, path);
  const { tuning: ofWeights, ...found } = await tuners.tuneKernels(device, {
    ...demand,
    onProgress,
  });
  const shared = attention && { attention: await tuners.tuneAttention(device, attention) };
  const tuning = { ...ofWeights, ...shared };
  const measured = new Date().toISOString();
  await storeTuning(device.adapterInfo, { tuning, measured }, path);
  return { tuning, ...found };
}
