/**
 * The real engine on devices that are lost when a test says so.
 *
 * @module
 */
import { vi } from "vitest";
import type { Engine } from "../../../src/engine/engine.ts";
import type { RecoveryEvent } from "../../../src/engine/engine_options.ts";
import type { LoadOptions } from "../../../src/engine/load/load_options.ts";
import { ModelRunner } from "../../../src/engine/step/model_runner.ts";
import type { Batch } from "../../../src/layers/batch.ts";
import { deviceFactory } from "../../../src/node/device/device.ts";
import { openEngine } from "./engine.ts";

export interface LosingEngine {
  readonly engine: Engine;
  /** Told so far of lost devices, without progress. */
  readonly events: readonly RecoveryEvent[];
  /** After how many steps devices are to be lost, each counted from the loss before. */
  lossesAfter: number[];
  /** Loses the device now. */
  lose(): void;
}

/** @param openNext Opens the devices after the first. Default: any on this adapter. */
export async function openLosingEngine(
  options: Partial<LoadOptions> = {},
  openNext: () => Promise<GPUDevice> = deviceFactory(),
): Promise<LosingEngine> {
  const events: RecoveryEvent[] = [];
  let device = await deviceFactory()();
  let isFirst = true;
  const losing = { lossesAfter: [] as number[], lose: () => device.destroy() };
  const engine = await openEngine({
    device: async () => {
      if (!isFirst) device = await openNext();
      isFirst = false;
      return device;
    },
    onRecovery: (event) => {
      if (event.kind !== "progress") events.push(event);
    },
    onStep: () => {
      if (losing.lossesAfter.length === 0) return;
      losing.lossesAfter[0]! -= 1;
      if (losing.lossesAfter[0]! > 0) return;
      losing.lossesAfter.shift();
      losing.lose();
    },
    ...options,
  });
  return Object.assign(losing, { engine, events });
}

/** From now on each step with such rows loses the device while it is in flight, until mocks are restored. */
export function loseWithSteps(losing: LosingEngine, losesDevice: (batch: Batch) => boolean): void {
  const { submit } = ModelRunner.prototype;
  vi.spyOn(ModelRunner.prototype, "submit").mockImplementation(async function (
    this: ModelRunner,
    ...given
  ) {
    const submitted = await submit.apply(this, given);
    if (losesDevice(given[0])) losing.lose();
    return submitted;
  });
}
