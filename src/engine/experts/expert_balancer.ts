/**
 * Moves experts between steps, so that ranks come to have about as much to do: by how often the steps
 * since the last time have chosen each.
 *
 * @module
 */
import { InvalidRequestError } from "../../errors.ts";
import type { Batch } from "../../layers/batch.ts";
import {
  type BalanceAlgorithm,
  balancedness,
  balanceExperts,
} from "../../parallel/experts/balance_experts.ts";
import type { ExpertLayout } from "../../parallel/experts/expert_layout.ts";
import { nodesOf } from "../../parallel/experts/expert_options.ts";
import type { ExpertPlacement } from "../../parallel/experts/expert_placement.ts";
import type { RebalanceOptions } from "../../parallel/experts/rebalance_options.ts";
import { othersTurn, turns } from "../../turns.ts";
import type { StepRunner } from "../step/step_runner.ts";
import type { ExpertRecorder, TakeCounts } from "./expert_recorder.ts";

/** What became of a turn of the balancer. */
export type RebalanceEvent =
  /** The load was so even that nothing is moved. */
  | { readonly kind: "skipped"; readonly balancedness: number; readonly threshold: number }
  | {
      readonly kind: "finished";
      readonly seconds: number;
      /** Slots that have another expert now. */
      readonly moved: number;
      /** Of the steps that were recorded: as they were placed, and as they would be now. */
      readonly before: number;
      readonly after: number;
    };

export interface ExpertBalancerOptions extends RebalanceOptions {
  /** Of the steps since the last time. */
  readonly recorder: ExpertRecorder;
  readonly algorithm: BalanceAlgorithm;
  /** Groups of experts that the model's router tells apart; 1 for none. */
  readonly groups: number;
  /** Machines that the ranks are on. */
  readonly nodes: number;
  readonly onRebalance?: ((event: RebalanceEvent) => void) | undefined;
}

/** Placements that are on their way, and what they are for. */
interface Turn {
  readonly layers: number[];
  readonly placement: ExpertPlacement;
  readonly before: number;
  readonly after: number;
  moved: number;
  seconds: number;
}

export class ExpertBalancer {
  readonly #options: ExpertBalancerOptions;
  /** Steps since the last time. */
  #steps = 0;
  #turn: Turn | undefined;

  constructor(options: ExpertBalancerOptions) {
    this.#options = options;
    options.recorder.record("start");
  }

  /** To be called for every step: takes what it has chosen. */
  nextStep(batch: Pick<Batch, "sequences">): TakeCounts | undefined {
    return this.#options.recorder.nextStep(batch);
  }

  /**
   * To be awaited in front of each step, behind all others that were submitted.
   *
   * @throws what keeps experts from being moved: the model is of no use then.
   */
  async beforeStep(runner: StepRunner, layout: ExpertLayout): Promise<void> {
    this.#steps += 1;
    if (this.#turn === undefined) {
      if (this.#steps <= this.#options.everySteps) return;
      this.#steps = 0;
      this.#turn = await this.#plan(layout);
    }
    if (this.#turn !== undefined) await this.#move(this.#turn, runner, layout);
  }

  async #plan(layout: ExpertLayout): Promise<Turn | undefined> {
    const { recorder, algorithm, groups, nodes, minBalancedness, onRebalance } = this.#options;
    if (recorder.passes === 0) return undefined;
    const sums = recorder.sums();
    const { slots, runs: ranks } = layout;
    const current = sums.map((_, layer) => layout.placementOf(layer));
    const before = meanBalancedness(sums, current, ranks);
    if (before > minBalancedness) {
      onRebalance?.({ kind: "skipped", balancedness: before, threshold: minBalancedness });
      recorder.forget();
      return undefined;
    }
    const sizes = { slots, ranks, nodes: nodesOf(ranks, nodes), groups };
    const steps = algorithm.startsWith("deepseek_vec") ? recorder.steps() : [sums];
    const placement: number[][] = [];
    for (let layer = 0; layer < sums.length; layer++) {
      const loads = steps.map((step) => step[layer]!);
      placement.push(balanceExperts(loads, sizes, algorithm));
      if (turns.isDue) await othersTurn();
    }
    const after = meanBalancedness(sums, placement, ranks);
    recorder.forget();
    // A layer in which no expert was chosen stays as it is.
    const used = sums.flatMap((list, layer) => (list.some((count) => count > 0) ? [layer] : []));
    return { layers: used, placement, before, after, moved: 0, seconds: 0 };
  }

  async #move(turn: Turn, runner: StepRunner, layout: ExpertLayout): Promise<void> {
    const { layersAtOnce = turn.layers.length, onRebalance, recorder } = this.#options;
    const begun = performance.now();
    for (const layer of turn.layers.splice(0, layersAtOnce)) {
      const before = layout.placementOf(layer);
      const after = turn.placement[layer]!;
      turn.moved += after.filter((expert, slot) => expert !== before[slot]).length;
      await runner.moveExperts!(layer, after);
    }
    turn.seconds += (performance.now() - begun) / 1000;
    if (turn.layers.length > 0) return;
    this.#turn = undefined;
    recorder.forget();
    const { seconds, moved, before, after } = turn;
    onRebalance?.({ kind: "finished", seconds, moved, before, after });
  }
}

/** Of layers in which something was chosen. */
function meanBalancedness(
  sums: readonly (readonly number[])[],
  placement: ExpertPlacement,
  ranks: number,
): number {
  const all = sums.flatMap((loads, layer) =>
    loads.some((count) => count > 0) ? [balancedness(loads, placement[layer]!, ranks)] : [],
  );
  return all.length === 0 ? 1 : all.reduce((sum, one) => sum + one, 0) / all.length;
}

/** @throws {InvalidRequestError} when there is nothing to balance. */
export function requireMovable(layout: ExpertLayout | undefined): void {
  if (layout?.isShared) return;
  const state = layout === undefined ? "the model has none" : "every rank has all of them";
  throw new InvalidRequestError(`Cannot move experts between ranks: ${state}`, "experts.rebalance");
}
