/**
 * Runs a vision tower on the GPU, picture by picture, beside the steps of the text model.
 *
 * @module
 */
import { Plan, type RunOptions } from "../../gpu/plan.ts";
import { Readback } from "../../gpu/readback.ts";
import { Recorder } from "../../gpu/recorder.ts";
import type { TowerPicture } from "../../images/patches.ts";
import { EMPTY_STEP, type Step } from "../../layers/batch.ts";
import type { VisionTensors, VisionTower } from "./vision_tower.ts";

export class VisionRunner {
  readonly tower: VisionTower;
  readonly recorder: Recorder;
  readonly #plan: Plan<Step>;
  readonly #tensors: VisionTensors;
  readonly #readback: Readback;
  readonly #step: Step = { ...EMPTY_STEP };

  /** @param steps The recorder of the text model, whose compiled pipelines it shares. */
  constructor(tower: VisionTower, { device, pipelines }: Recorder) {
    this.tower = tower;
    // Its launches are never between those of a step.
    this.recorder = new Recorder(device, { pipelines, maxLaunches: launchesOf(tower) });
    this.#plan = new Plan(this.recorder);
    this.#tensors = tower.compile(this.#plan);
    const { featureStride } = this.#tensors;
    this.#readback = new Readback(device, tower.maxRows * featureStride * 4, 1);
  }

  /** Elements from one patch to the next. */
  get patchStride(): number {
    return this.#tensors.patchStride;
  }

  /**
   * The rows of one picture. To be called when the last picture's are there. Its bits depend on the
   * picture alone.
   *
   * @returns Each of the text model's width.
   * @throws {DeviceError} as a rejection, when the device is lost.
   */
  async run(
    { patches, grid }: TowerPicture,
    options: Pick<RunOptions, "onTap"> = {},
  ): Promise<readonly Float32Array[]> {
    const { patches: into, features, featureStride } = this.#tensors;
    const { textSize } = this.tower;
    const { recorder } = this;
    recorder.device.queue.writeBuffer(into.buffer, into.offset, patches);
    const sizes = this.#tensors.begin(grid);
    this.#step.rows = this.#step.decodeRows = sizes.patches;
    await this.#plan.run(this.#step, options);
    const read = this.#readback.record(recorder, features, sizes.rows * featureStride * 4);
    recorder.submit();
    const all = new Float32Array(await read());
    return Array.from({ length: sizes.rows }, (_, i) =>
      all.slice(i * featureStride, i * featureStride + textSize),
    );
  }

  destroy(): void {
    this.#readback.destroy();
    this.recorder.destroy();
  }
}

/** More than are bound: each form of a linear is one. */
function launchesOf({ layers }: VisionTower): number {
  return 128 * (layers + 1);
}
