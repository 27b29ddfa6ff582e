/**
 * The start-up self-test over what a model needs, and the layout of weights that follows from it.
 *
 * @module
 */

import type { LinearLayout } from "../../../kernels/linear/linear_layout.ts";
import { DEFAULT_LAYOUT, layoutFor } from "../../../kernels/linear/weights/layout.ts";
import { orderOf } from "../../../kernels/linear/weights/weight_order.ts";
import { type SelfTestReport, selfTest } from "../../../kernels/self_test.ts";
import { DeviceError } from "../../errors.ts";
import type { Recorder } from "../../gpu/recorder.ts";
import type { ResolvedOptions } from "../resolve_options.ts";
import { classLayout, matrixLayout, mayUseCodes } from "./class_layout.ts";
import type { LoadOptions } from "./load_options.ts";
import type { PreparedLoad } from "./prepare_load.ts";

/**
 * Runs the start-up self-test over what the model needs.
 *
 * @throws {DeviceError} when no model would run, or not as an option promises.
 */
export async function testAdapter(
  { definition, device, options, tuning, measured }: PreparedLoad,
  {
    recorder,
    tunedKernels = true,
    numericClass = "auto",
    matrixKernels,
    onProgress,
  }: { readonly recorder: Recorder } & Pick<
    LoadOptions,
    "tunedKernels" | "numericClass" | "matrixKernels" | "onProgress"
  >,
): Promise<{ readonly report: SelfTestReport; readonly layout: LinearLayout }> {
  const { weightFormats } = measured;
  const numerics = classLayout(numericClass, device);
  const groupColumns = weightFormats.get("int4")?.groupColumns;
  const report = await selfTest(device, {
    recorder,
    dtypes: [...weightFormats.keys()],
    onProgress: (done, total) => onProgress?.({ phase: "adapter", done, total }),
    layout: {
      ...(tunedKernels ? layoutFor(device, tuning) : DEFAULT_LAYOUT),
      ...numerics,
    },
    ...(groupColumns !== undefined && { groupColumns }),
  });
  requirePromise(options, report);
  const { attention } = definition.facts;
  const matrices = await matrixLayout(numericClass, {
    ...options,
    recorder,
    matrixKernels,
    attention,
    usesCodes: mayUseCodes(weightFormats, device),
  });
  const { fp8Decode, subgroupSize, askedSubgroupSize, packedDots } = report;
  const layout = {
    ...orderOf(tuning),
    tuning,
    ...numerics,
    fp8Decode,
    packedDots,
    ...(subgroupSize !== undefined && { subgroupSize }),
    ...(askedSubgroupSize !== undefined && { askedSubgroupSize }),
    ...matrices,
  };
  return { report, layout };
}

/** @throws {DeviceError} when an option promises what the adapter does not keep. */
export function requirePromise(
  { deterministicInference }: Pick<ResolvedOptions, "deterministicInference">,
  { batchInvariant, failures }: SelfTestReport,
): void {
  if (!deterministicInference || batchInvariant) return;
  throw new DeviceError(
    `Cannot promise deterministic inference on this adapter: ${failures.join("; ")}`,
  );
}
