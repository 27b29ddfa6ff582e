/**
 * One model for several engines, each of which has one attention group of its ranks.
 *
 * The first engine that wants its part has all parts loaded, and the others take theirs from there: when
 * they start, and when their devices are replaced, which are those of all groups.
 *
 * @module
 */
import type { Checkpoint } from "../../checkpoint/checkpoint.ts";
import type { EngineOptions } from "../engine_options.ts";
import type { LoadOptions } from "../load/load_options.ts";
import type { EngineModel } from "../ranks/engine_model.ts";
import { asOne, loadParts, type RankLoading } from "../ranks/rank_group.ts";
import type { RankRunner } from "../ranks/rank_runner.ts";
import type { StepRunner } from "../step/step_runner.ts";
import { Conductor, ranksHere } from "./conductor.ts";

type LoadRanks = NonNullable<RankLoading["loadRanks"]>;
type GivenOptions = EngineOptions & Pick<LoadOptions, "signal">;

type LoadGroups = (
  checkpoint: Checkpoint,
  options: GivenOptions & { readonly attentionGroups: number },
) => Promise<readonly EngineModel[]>;

/** Models of all groups that were loaded together, and who has not taken theirs. */
interface Generation {
  readonly models: Promise<readonly EngineModel[]>;
  readonly left: Set<number>;
}

export class GroupLoading {
  readonly #groups: number;
  readonly #load: LoadGroups;
  #newest: Generation | undefined;

  /** @param load Loads the parts of all groups. Default: on ranks of this process. */
  constructor(groups: number, load: LoadGroups = loadGroups) {
    this.#groups = groups;
    this.#load = load;
  }

  /** How the engine of a group loads its model: with the options of the first that does. */
  of(group: number): LoadRanks {
    return async (checkpoint, options) => {
      if (this.#newest?.left.has(group) !== true) this.#begin(checkpoint, options);
      const { models, left } = this.#newest!;
      left.delete(group);
      const all = await models;
      return all[group]!;
    };
  }

  /** Frees parts that no engine has taken: not all of them load. */
  destroy(): void {
    freeLeft(this.#newest);
    this.#newest = undefined;
  }

  #begin(checkpoint: Checkpoint, options: GivenOptions): void {
    const before = this.#newest;
    const left = new Set(Array.from({ length: this.#groups }, (_, group) => group));
    const models = this.#load(checkpoint, { ...options, attentionGroups: this.#groups });
    const generation = { models, left };
    this.#newest = generation;
    models.catch(() => {
      // Who wants it next tries again.
      if (this.#newest === generation) this.#newest = undefined;
    });
    // Parts that are left on devices before these are of no use.
    freeLeft(before);
  }
}

function freeLeft(generation: Generation | undefined): void {
  generation?.models.then(
    (all) => {
      for (const group of generation.left) all[group]!.destroy();
    },
    () => {},
  );
}

const loadGroups: LoadGroups = async (checkpoint, options) => {
  const { attentionGroups } = options;
  const { models, devices, renew, abort } = await loadParts(checkpoint, options);
  const size = models.length / attentionGroups;
  const groups = Array.from({ length: attentionGroups }, (_, group) =>
    asOne(models.slice(group * size, (group + 1) * size), group * size),
  );
  const runners = groups.map(({ runner }) => runner);
  const ranks = ranksHere({ groups: runners, renew, abort });
  const conductor = new Conductor({ ranks });
  return groups.map((model, group) => ({
    ...model,
    // A device that is lost is lost for all groups.
    devices,
    runner: conducted(conductor, model.runner, group),
    // The conductor has ranks meet again.
    renewGroup: () => {},
    hasSampled: () => conductor.hasSampled,
  }));
};

/** A group's ranks, whose steps are those of all groups. */
function conducted(conductor: Conductor, ranks: RankRunner, group: number): StepRunner {
  return {
    rankTimes: ranks.rankTimes,
    recorder: ranks.recorder,
    maxScoredRows: ranks.maxScoredRows,
    get overlappedSteps() {
      return ranks.overlappedSteps;
    },
    moveExperts: (layer, after) => conductor.moveExperts(layer, after),
    submit: (batch, sampling, options) => conductor.submit(group, batch, sampling, options),
  };
}
