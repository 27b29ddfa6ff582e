/**
 * A model as an engine has it, however many ranks share it and wherever they are.
 *
 * @module
 */
import type { RankPages } from "../../cache/rank_pages.ts";
import type { LoadedModel } from "../load/load.ts";
import type { PageCarrier } from "../schedule/retraction_memory.ts";
import type { StepRunner } from "../step/step_runner.ts";

/** What an engine has of a model, on however many ranks. */
export interface EngineModel extends Omit<LoadedModel, "runner" | "codec" | "copier"> {
  readonly runner: StepRunner;
  /** Those of this process's ranks; the first is `device`. */
  readonly devices: readonly GPUDevice[];
  readonly codec: Pick<LoadedModel["codec"] & object, keyof RankPages> | undefined;
  readonly copier: Pick<LoadedModel["copier"] & object, "copy"> | undefined;
  /** Carries pages to the host memory of ranks that are elsewhere; else `codec` does. */
  readonly retracted?: PageCarrier | undefined;
  /** Resolves when the device is lost, or that of a rank elsewhere. Default: `device.lost`. */
  readonly lost?: Promise<Pick<GPUDeviceLostInfo, "message" | "reason">> | undefined;
  /** Tells ranks that are elsewhere that the engine is of no use any more. */
  readonly abandon?: ((reason: string) => void) | undefined;
  /**
   * Whether any engine that shares the devices has seen a token from them: theirs are lost together, and
   * one without requests sees none. Default: this one alone has them.
   */
  readonly hasSampled?: (() => boolean) | undefined;
  /** Has ranks of this process meet again after a step that one of them has left; else absent. */
  readonly renewGroup?: (() => void) | undefined;
}
